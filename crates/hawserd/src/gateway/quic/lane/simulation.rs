//! One connection of the lane over paths on virtual time: QUIC as the gateway drives it, over links of a
//! rate, a delay and a loss.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::PathBuf,
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use hawser_multipath::{Inbound, Outbound, Scheduler, View};
use hawser_tls::{Identity, Revoked};
use hawser_wire::lane::{Kind, Message};
use quinn_proto::{ConnectionHandle, DatagramEvent, Dir, Endpoint, Event, StreamEvent};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use super::{FIRST_WINDOW, MOST_WINDOW, Parcel, schedule::FULL};
use crate::gateway::{
    config::{self, tests::sample},
    quic::{
        link::Link,
        settings::{INNER_MTU, LARGEST, Settings},
        train::Train,
    },
};

const BATCH: usize = 40;
const PACKET: u64 = 1200;

/// A link of the network, each way.
#[derive(Clone, Copy)]
struct Wire {
    mbps: f64,
    delay: Duration,
    loss: f64,
}

/// What is under way.
struct Network {
    wires: Vec<Wire>,
    /// When each wire is free again, each way.
    free: Vec<[Instant; 2]>,
    coming: BTreeMap<(Instant, u64), (usize, usize, BytesMut)>,
    count: u64,
    random: u64,
}

impl Network {
    /// Between 0 and 1 (xorshift64*).
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
        if full || self.random() < wire.loss {
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

/// A gateway: its ends of the paths, and of the connection.
struct Gateway {
    ends: Vec<End>,
    scheduler: Scheduler,
    outbound: Outbound,
    inbound: Inbound,
    /// What is to be told.
    first: Vec<Parcel>,
    read: u64,
}

struct Simulation {
    settings: Settings,
    now: Instant,
    network: Network,
    gateways: [Gateway; 2],
}

/// Of an authority of its own, through files whose folder is named so.
fn identity(name: u64) -> Identity {
    let folder: PathBuf =
        std::env::temp_dir().join(format!("hawserd-lane-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let ca = params.self_signed(&key).unwrap();
    let issuer = Issuer::from_params(&params, &key);
    let own = KeyPair::generate().unwrap();
    let params = CertificateParams::new(["b1".to_owned()]).unwrap();
    let certificate = params.signed_by(&own, &issuer).unwrap();
    let files =
        [("ca.pem", ca.pem()), ("own.pem", certificate.pem()), ("own.key", own.serialize_pem())];
    let [ca, own, key] = files.map(|(name, text)| {
        let file = folder.join(name);
        std::fs::write(&file, text).unwrap();
        file
    });
    let identity = Identity::load(&own, &key, &ca, Revoked::default()).unwrap();
    let _ = std::fs::remove_dir_all(&folder);
    identity
}

fn address(gateway: usize) -> SocketAddr {
    ([10, 0, 0, u8::try_from(gateway).unwrap() + 1], 4433).into()
}

impl Simulation {
    fn new(wires: &[Wire], seed: u64) -> Self {
        let mut document = sample();
        document["transport"] = serde_json::json!({
            "kind": "quic", "udp_offload": true, "lane": {"II": "tcp"},
            "tls": {"certificate": "own.pem", "key": "own.key", "ca": "ca.pem"},
        });
        let config = config::parse(&document).unwrap();
        let settings = Settings::new(&identity(seed), &config).unwrap();
        let now = Instant::now();
        let network = Network {
            wires: wires.to_vec(),
            free: vec![[now; 2]; wires.len()],
            coming: BTreeMap::new(),
            count: 0,
            random: seed,
        };
        let gateways = [0, 1].map(|side| Gateway {
            ends: wires.iter().map(|_| End::new(&settings, now, side == 1)).collect(),
            scheduler: Scheduler::default(),
            outbound: Outbound::new(FIRST_WINDOW),
            inbound: Inbound::new(FIRST_WINDOW),
            first: Vec::new(),
            read: 0,
        });
        let mut this = Self { settings, now, network, gateways };
        for path in 0..wires.len() {
            this.connect(path);
        }
        this.settle(0, false);
        this
    }

    fn connect(&mut self, path: usize) {
        let model = self.settings.model(self.now);
        let config = self.settings.client(&model);
        let end = &mut self.gateways[0].ends[path];
        let (handle, connection) =
            end.endpoint.connect(self.now, config, address(1), "b1").unwrap();
        end.link = Some((handle, Link::new(connection, model, None, self.now)));
    }

    fn receive(&mut self, path: usize, side: usize, datagram: BytesMut) {
        let mut answer = Vec::new();
        let end = &mut self.gateways[side].ends[path];
        let from = address(1 - side);
        match end.endpoint.handle(self.now, from, None, None, datagram, &mut answer) {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                let (_, link) = end.link.as_mut().unwrap();
                link.connection.handle_event(event);
                link.active = true;
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                let model = self.settings.model(self.now);
                let config = std::sync::Arc::new(self.settings.server(&model));
                let accepted = end.endpoint.accept(incoming, self.now, &mut answer, Some(config));
                let (handle, connection) = accepted.ok().unwrap();
                end.link = Some((handle, Link::new(connection, model, None, self.now)));
            }
            _ => {}
        }
    }

    /// Lets time pass until then.
    fn run(&mut self, until: Instant, both: bool) {
        while self.now < until {
            let timeouts = self.gateways.iter_mut().flat_map(Gateway::links);
            let timeout = timeouts.filter_map(|link| link.connection.poll_timeout()).min();
            let packet = self.network.coming.first_key_value().map(|((at, _), _)| *at);
            let next = [timeout, packet].into_iter().flatten().min().unwrap_or(until);
            self.now = self.now.max(next);
            while let Some(entry) = self.network.coming.first_entry()
                && entry.key().0 <= self.now
            {
                let (path, to, datagram) = entry.remove();
                self.receive(path, to, datagram);
            }
            for link in self.gateways.iter_mut().flat_map(Gateway::links) {
                if link.connection.poll_timeout().is_some_and(|at| at <= self.now) {
                    link.connection.handle_timeout(self.now);
                }
            }
            for side in 0..2 {
                self.settle(side, both || side == 0);
            }
        }
    }

    /// Does all that there is to be done now on one side.
    fn settle(&mut self, side: usize, sends: bool) {
        let now = self.now;
        let gateway = &mut self.gateways[side];
        let mut train = Train::default();
        let mut more = true;
        while more {
            let heard = gateway.hear(now);
            let scheduler = &mut gateway.scheduler;
            let mut links: Vec<_> = gateway.ends.iter_mut().filter_map(End::link).collect();
            let busy = links.iter().any(|link| link.parcels.are_under_way());
            let leeway = if busy || sends { Link::weight(INNER_MTU.into()) } else { 0 };
            let mut views: Vec<View> =
                links.iter_mut().map(|link| link.view(now, leeway)).collect();
            let mut given = false;
            loop {
                let backlog = if sends { gateway.outbound.room().min(1 << 20) } else { 0 };
                let backlog = backlog.max(u64::from(!gateway.first.is_empty()));
                if backlog == 0 {
                    break;
                }
                let Some(choice) = scheduler.next(&views, backlog, PACKET, false) else { break };
                let parcel = if gateway.first.is_empty() {
                    let worth = views[choice.path].rate.bytes(Duration::from_millis(4));
                    let most = (worth / u64::from(LARGEST)).clamp(1, 16) as usize * FULL;
                    let Some(piece) = gateway.outbound.next(1 << 20, false, most, FULL) else {
                        break;
                    };
                    let kind = Kind::Data { offset: piece.offset, end: false };
                    Parcel::new(&Message { flow: 0, kind }, vec![7; piece.len].into())
                } else {
                    gateway.first.remove(0)
                };
                views[choice.path].sent(Link::weight(parcel.len() as u64));
                assert!(links[choice.path].give_parcel(parcel).is_ok());
                given = true;
            }
            for (path, link) in links.iter_mut().enumerate() {
                link.flush(now, BATCH, &mut train, |transmit, contents| {
                    let one = transmit.segment_size.unwrap_or(contents.len());
                    for datagram in contents.chunks(one) {
                        self.network.send(now, path, 1 - side, datagram);
                    }
                    true
                });
            }
            more = given || heard;
        }
    }

    /// What each side reads in the last two of five seconds, Mbit/s.
    fn goodput(mut self, both: bool) -> [f64; 2] {
        let start = self.now;
        self.run(start + Duration::from_secs(3), both);
        let before = self.gateways.each_ref().map(|gateway| gateway.read);
        self.run(start + Duration::from_secs(5), both);
        let after = self.gateways.each_ref().map(|gateway| gateway.read);
        [1, 0].map(|side| (after[side] - before[side]) as f64 * 8.0 / 2e6)
    }
}

impl Gateway {
    /// Takes what has come; whether anything has.
    fn hear(&mut self, now: Instant) -> bool {
        let mut messages = Vec::new();
        for end in &mut self.ends {
            end.poll(|message| messages.push(message));
        }
        for message in &messages {
            let (Message { kind, .. }, payload) = Message::parse(message).unwrap();
            match kind {
                Kind::Data { offset, end } => {
                    self.inbound.insert(offset, payload, end).unwrap();
                }
                Kind::Credit { limit } => self.outbound.allow(limit),
                _ => unreachable!(),
            }
        }
        let ready = self.inbound.all_ready().map(<[u8]>::len).sum();
        self.inbound.consume(ready);
        self.read += ready as u64;
        let links: Vec<_> = self.ends.iter_mut().filter_map(End::link).collect();
        let rtt = links.iter().filter_map(|link| link.path.get().rtt()).max();
        let rtt = rtt.unwrap_or_default();
        if let Some(limit) = self.inbound.credit(now, rtt, MOST_WINDOW) {
            self.first.push(Parcel::new(
                &Message { flow: 0, kind: Kind::Credit { limit } },
                Bytes::new(),
            ));
        }
        !messages.is_empty()
    }

    fn links(&mut self) -> impl Iterator<Item = &mut Link> {
        self.ends.iter_mut().filter_map(|end| end.link.as_mut().map(|(_, link)| link))
    }
}

impl End {
    fn new(settings: &Settings, now: Instant, takes: bool) -> Self {
        let config = std::sync::Arc::new(Settings::endpoint(takes));
        let server = takes.then(|| std::sync::Arc::new(settings.server(&settings.model(now))));
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
                    link.accept_parcels(&mut take);
                }
                Event::Stream(StreamEvent::Readable { id }) => link.read_parcel(id, &mut take),
                Event::Stream(StreamEvent::Finished { id }) => link.parcels.arrived(id),
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

/// Both paths of the first wire's kind.
fn two(loss: f64) -> [Wire; 2] {
    let delay = Duration::from_millis(20);
    [Wire { mbps: 10.0, delay, loss }; 2]
}

#[test]
fn paths_that_lose_packets_are_full() {
    for loss in [0.0, 0.005, 0.02] {
        let [read, _] = Simulation::new(&two(loss), 7).goodput(false);
        assert!(read > 17.0, "{loss}: {read} of 20 Mbit/s");
    }
}

#[test]
fn both_directions_together_do_not_wait_for_each_other() {
    let read = Simulation::new(&two(0.0), 8).goodput(true);
    assert!(read.iter().sum::<f64>() > 20.0, "{read:?} of 20 Mbit/s each way");
}
