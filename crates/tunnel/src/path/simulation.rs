//! Member paths in virtual time: QUIC as the gateway drives it, over links with rate, delay and
//! loss.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    time::{Duration, Instant},
};

use bytes::BytesMut;
use hawser_tls::{Identity, Revoked};
use quinn_proto::{ConnectionHandle, DatagramEvent, Dir, Endpoint, Event, StreamEvent};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use super::{GsoBatch, Link, MAX_DATAGRAM, Settings};
use crate::config::{Congestion, Options, Oversize, Recovery};

const BATCH: usize = 40;

/// Interval at which keepalives are considered.
const TICK: Duration = Duration::from_millis(50);

/// A link, the same in both directions.
#[derive(Clone, Copy)]
pub(crate) struct Wire {
    pub(crate) mbps: f64,
    pub(crate) delay: Duration,
    pub(crate) loss: f64,
}

/// Datagrams in transit.
struct Network {
    wires: Vec<Wire>,
    /// Whether a wire drops everything.
    cut: Vec<bool>,
    /// When each wire is idle again, per direction.
    free: Vec<[Instant; 2]>,
    coming: BTreeMap<(Instant, u64), (usize, usize, BytesMut)>,
    count: u64,
    random: u64,
}

impl Network {
    /// Uniform in 0 to 1 (xorshift64*).
    fn random(&mut self) -> f64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        (self.random.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn send(&mut self, now: Instant, path: usize, to: usize, datagram: &[u8]) {
        let wire = self.wires[path];
        let free = self.free[path][to].max(now);
        let bits = (datagram.len() + 42) as f64 * 8.0;
        let full = free > now + Duration::from_secs_f64(1000.0 * 12_112.0 / (wire.mbps * 1e6));
        if full || self.cut[path] || self.random() < wire.loss {
            return;
        }
        let free = free + Duration::from_secs_f64(bits / (wire.mbps * 1e6));
        self.free[path][to] = free;
        self.count += 1;
        self.coming.insert((free + wire.delay, self.count), (path, to, datagram.into()));
    }
}

/// One end of a path.
struct End {
    endpoint: Endpoint,
    link: Option<(ConnectionHandle, Link)>,
}

/// What a gateway does with its paths.
pub(crate) trait Gateway {
    /// Receives a message or a datagram.
    fn take(&mut self, bytes: Vec<u8>);

    /// Hands data to the paths; returns whether more may follow.
    fn give(&mut self, now: Instant, links: &mut [&mut Link]) -> bool;
}

/// Two gateways, the first of which connects, and the paths between them.
pub(crate) struct Simulation<G> {
    settings: Settings,
    pub(crate) now: Instant,
    next_tick: Instant,
    network: Network,
    ends: [Vec<End>; 2],
    pub(crate) gateways: [G; 2],
}

/// An identity with an authority of its own.
fn identity() -> Identity {
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let ca = params.self_signed(&key).unwrap();
    let issuer = Issuer::from_params(&params, &key);
    let own = KeyPair::generate().unwrap();
    let params = CertificateParams::new(["b1".to_owned()]).unwrap();
    let certificate = params.signed_by(&own, &issuer).unwrap().pem();
    let key = own.serialize_pem();
    let ca = ca.pem();
    let [certificate, key, ca] = [&certificate, &key, &ca].map(String::as_bytes);
    Identity::from_pem(certificate, key, ca, Revoked::default()).unwrap()
}

fn address(gateway: usize) -> SocketAddr {
    ([10, 0, 0, u8::try_from(gateway).unwrap() + 1], 4433).into()
}

impl<G: Gateway> Simulation<G> {
    pub(crate) fn new(wires: &[Wire], seed: u64, gateways: [G; 2]) -> Self {
        let options = Options {
            congestion: Congestion::Delay,
            recovery: Recovery::Resend,
            resequence: true,
            header_compression: true,
            proxy: true,
            udp_offload: true,
            oversize: Oversize::default(),
            newest_version: hawser_wire::tunnel::WIRE_VERSIONS.1,
        };
        let settings = Settings::new(&identity(), options).unwrap();
        let now = Instant::now();
        let network = Network {
            wires: wires.to_vec(),
            cut: vec![false; wires.len()],
            free: vec![[now; 2]; wires.len()],
            coming: BTreeMap::new(),
            count: 0,
            random: seed,
        };
        let ends = [false, true]
            .map(|takes| wires.iter().map(|_| End::new(&settings, now, takes)).collect());
        let mut this = Self { settings, now, next_tick: now + TICK, network, ends, gateways };
        for path in 0..wires.len() {
            this.connect(path);
        }
        this.settle(0);
        this
    }

    fn connect(&mut self, path: usize) {
        let model = self.settings.model(self.now);
        let config = self.settings.client(&model, MAX_DATAGRAM);
        let end = &mut self.ends[0][path];
        let (handle, connection) =
            end.endpoint.connect(self.now, config, address(1), "b1").unwrap();
        end.link = Some((handle, Link::new(connection, (path, handle), model, None, self.now)));
    }

    fn receive(&mut self, path: usize, side: usize, datagram: BytesMut) {
        let mut answer = Vec::new();
        let end = &mut self.ends[side][path];
        let from = address(1 - side);
        match end.endpoint.handle(self.now, from, None, None, datagram, &mut answer) {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                let (_, link) = end.link.as_mut().unwrap();
                link.handle_event(event);
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                let model = self.settings.model(self.now);
                let config = std::sync::Arc::new(self.settings.server(&model, MAX_DATAGRAM));
                let accepted = end.endpoint.accept(incoming, self.now, &mut answer, Some(config));
                let (handle, connection) = accepted.ok().unwrap();
                end.link =
                    Some((handle, Link::new(connection, (path, handle), model, None, self.now)));
            }
            _ => {}
        }
    }

    fn links(&mut self) -> impl Iterator<Item = &mut Link> {
        self.ends.iter_mut().flatten().filter_map(End::link)
    }

    /// Makes a wire drop everything, or work again.
    pub(crate) fn cut(&mut self, path: usize, cut: bool) {
        self.network.cut[path] = cut;
    }

    /// Advances time.
    pub(crate) fn run(&mut self, until: Instant) {
        while self.now < until {
            let timeout = self.links().filter_map(|link| link.connection.poll_timeout()).min();
            let packet = self.network.coming.first_key_value().map(|((at, _), _)| *at);
            let next = [timeout, packet].into_iter().flatten().fold(self.next_tick, Instant::min);
            self.now = self.now.max(next);
            while let Some(entry) = self.network.coming.first_entry()
                && entry.key().0 <= self.now
            {
                let (path, to, datagram) = entry.remove();
                self.receive(path, to, datagram);
            }
            let now = self.now;
            if now >= self.next_tick {
                self.next_tick = now + TICK;
                self.links().for_each(|link| link.keep_alive(now));
            }
            for link in self.links() {
                if link.connection.poll_timeout().is_some_and(|at| at <= now) {
                    link.connection.handle_timeout(now);
                }
            }
            for side in 0..2 {
                self.settle(side);
            }
        }
    }

    /// Does everything that is due on one side.
    fn settle(&mut self, side: usize) {
        let now = self.now;
        let (gateway, ends) = (&mut self.gateways[side], &mut self.ends[side]);
        let mut batch = GsoBatch::default();
        let mut more = true;
        while more {
            let mut heard = false;
            for end in ends.iter_mut() {
                end.poll(|bytes| {
                    heard = true;
                    gateway.take(bytes);
                });
            }
            let mut links: Vec<_> = ends.iter_mut().filter_map(End::link).collect();
            more = gateway.give(now, &mut links) || heard;
            for (path, link) in links.iter_mut().enumerate() {
                while let Some(transmit) = link.poll_transmit(now, BATCH, &mut batch) {
                    let one = transmit.segment_size.unwrap_or(transmit.size);
                    for datagram in batch.contents().chunks(one) {
                        self.network.send(now, path, 1 - side, datagram);
                    }
                }
            }
        }
    }
}

impl End {
    fn new(settings: &Settings, now: Instant, takes: bool) -> Self {
        let config = std::sync::Arc::new(settings.endpoint(takes, "one end", MAX_DATAGRAM));
        let server =
            takes.then(|| std::sync::Arc::new(settings.server(&settings.model(now), MAX_DATAGRAM)));
        Self { endpoint: Endpoint::new(config, server, true, None), link: None }
    }

    fn link(&mut self) -> Option<&mut Link> {
        self.link.as_mut().map(|(_, link)| link)
    }

    fn poll(&mut self, mut take: impl FnMut(Vec<u8>)) {
        let Some((handle, link)) = &mut self.link else { return };
        while let Some(event) = link.connection.poll() {
            match event {
                Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) => {
                    link.accept_messages(&mut take);
                }
                Event::Stream(StreamEvent::Readable { id }) => link.read_message(id, &mut take),
                Event::Stream(StreamEvent::Finished { id }) => link.messages.finished(id),
                Event::DatagramReceived => {
                    while let Some(datagram) = link.connection.datagrams().recv() {
                        take(datagram.into());
                    }
                }
                Event::ConnectionLost { reason } => panic!("{reason}"),
                _ => {}
            }
        }
        while let Some(event) = link.connection.poll_endpoint_events() {
            if let Some(answer) = self.endpoint.handle_event(*handle, event) {
                link.connection.handle_event(answer);
            }
        }
    }
}
