//! The `quic` transport: sockets, device and streams of a [`Tunnel`], which makes all decisions.

mod device;
mod mtu;
mod proxy;
mod report;
mod socket;

use std::{
    collections::{BTreeMap, HashMap},
    io,
    net::{IpAddr, SocketAddr},
    time::Instant,
};

use hawser_netdev::{
    poll::{Interest, Ready},
    udp_offload,
};
use hawser_tls::Identity;
use hawser_tunnel::{
    Event, PathId, Reach, Tunnel,
    config::{self as tunnel, Options},
    counters::UnauthenticatedCounters,
};
use hawser_wire::tunnel::OwnAddresses;

use self::{
    device::Device,
    mtu::DeviceMtu,
    proxy::Proxy,
    socket::{ReceiveBuffer, Socket},
};
use super::{Host, Transport, may_change};
use crate::{
    command::Answer,
    config::Config,
    status::{PeerCounters, PeerStatus},
    trains::{Request, TrainRefused},
};

pub(crate) use self::proxy::{remove, set};

/// Batches received from a socket per turn.
const BATCHES_PER_TURN: usize = 4;

/// The transport.
pub(crate) struct Quic {
    tunnel: Tunnel<proxy::Connection>,
    sockets: BTreeMap<usize, Socket>,
    next_socket: usize,
    /// See [`Transport::problems`].
    problems: Vec<(IpAddr, String)>,
    buffer: ReceiveBuffer,
    device: Device,
    mtu: DeviceMtu,
    /// The TCP proxy, if it is on.
    proxy: Option<Proxy>,
    /// Where the rendezvous has said that peers are.
    introduced: HashMap<PathId, SocketAddr>,
    /// Who waits for trains, by their numbers.
    trains: HashMap<u32, Answer>,
    /// Result of the UDP GSO self-test, once it has run.
    offload: Option<bool>,
}

/// Sockets that have been opened.
#[derive(Default)]
struct Opened {
    sockets: Vec<Socket>,
    /// Their numbers.
    numbers: Vec<usize>,
    /// See [`Transport::problems`].
    problems: Vec<(IpAddr, String)>,
}

impl Quic {
    /// No peers yet. `session` must never have been used before.
    pub(crate) fn new(
        host: &Host,
        config: &Config,
        identity: &Identity,
        session: [u8; 16],
    ) -> io::Result<Self> {
        let now = Instant::now();
        let mut offload = None;
        let settings = tunnel_config(config, &mut offload);
        let tunnel = Tunnel::new(&settings, identity, session, now).map_err(io::Error::other)?;
        let proxy = settings.options.proxy.then(|| Proxy::new(host, config)).transpose()?;
        Ok(Self {
            tunnel,
            sockets: BTreeMap::new(),
            next_socket: 0,
            problems: Vec::new(),
            buffer: ReceiveBuffer::new(),
            device: Device::new(),
            mtu: DeviceMtu::default(),
            proxy,
            introduced: HashMap::new(),
            trains: HashMap::new(),
            offload,
        })
    }

    /// Opens the sockets that a configuration needs and that are not there yet. What is missing for
    /// some of them, and may come, is noted.
    fn open(&mut self, host: &Host, settings: &tunnel::Config) -> io::Result<Opened> {
        let mut opened = Opened::default();
        let all = settings.sockets();
        let stays = |socket: &Socket| all.iter().any(|wanted| socket.matches(wanted));
        for wanted in all.iter().copied() {
            if self.sockets.values().any(|socket| socket.matches(&wanted)) {
                continue;
            }
            match Socket::bind(wanted) {
                Ok(socket) => opened.sockets.push(socket),
                Err(error) if may_change(&error) => {
                    opened.problems.push((wanted.address.ip(), error.to_string()));
                }
                Err(error) => return Err(error),
            }
        }
        for socket in &opened.sockets {
            let taken = |number| {
                opened.numbers.contains(&number) || self.sockets.get(&number).is_some_and(stays)
            };
            let number = self.tunnel.endpoint_for(&socket.spec, taken).unwrap_or_else(|| {
                self.next_socket += 1;
                self.next_socket - 1
            });
            host.poller.add(socket, number as u64, Interest::Read)?;
            opened.numbers.push(number);
        }
        Ok(opened)
    }

    /// Puts a configuration in force, with the sockets opened for it.
    fn apply(&mut self, settings: tunnel::Config, opened: Opened, now: Instant) {
        let Opened { sockets, numbers, problems } = opened;
        let wanted = settings.sockets();
        self.sockets.retain(|_, socket| wanted.iter().any(|wanted| socket.matches(wanted)));
        let sizes = |socket: &Socket| (socket.max_batch(), socket.max_datagram());
        let new: Vec<_> = numbers.iter().zip(&sockets).collect();
        let new = new.into_iter().map(|(number, s)| (*number, s.spec, sizes(s)));
        self.tunnel.configure(now, settings, new.collect::<Vec<_>>());
        self.sockets.extend(numbers.into_iter().zip(sockets));
        self.problems = problems;
        self.mtu.forget();
    }

    /// Receives from a socket.
    fn receive(&mut self, host: &mut Host, number: usize, now: Instant) {
        let Self { tunnel, sockets, buffer, device, .. } = self;
        let Some(socket) = sockets.get(&number) else { return };
        for _ in 0..BATCHES_PER_TURN {
            let more = socket.receive(buffer, |from, datagram| {
                tunnel.handle_input(now, number, from, datagram);
            });
            device.write(host, tunnel, now);
            if !more {
                return;
            }
        }
    }

    /// Sends what may be sent, and opens connections that peers ask for.
    fn transmit(&mut self, host: &Host, now: Instant) {
        loop {
            while let Some(transmit) = self.tunnel.poll_transmit(now) {
                // What cannot be sent counts as lost on the path.
                let number = transmit.socket;
                let Some(socket) = self.sockets.get(&number) else { continue };
                if !socket.send(&transmit) {
                    // The kernel may have rejected GSO; it is not asked again then.
                    self.tunnel.set_max_batch(number, socket.max_batch());
                }
            }
            let connected =
                self.proxy.as_ref().is_some_and(|_| proxy::connect(host, &mut self.tunnel));
            if !connected {
                return;
            }
        }
    }

    /// The tunnel's part of the configuration, with what the rendezvous has told.
    fn settings(&mut self, config: &Config) -> tunnel::Config {
        let mut settings = tunnel_config(config, &mut self.offload);
        let mut met = HashMap::new();
        for peer in &mut settings.peers {
            for group in &mut peer.groups {
                for (member, path) in (0..).zip(&mut group.paths) {
                    let id = PathId { peer: peer.id, group: group.id, member };
                    let told = self.introduced.get(&id).filter(|_| settings.rendezvous.is_some());
                    path.reflexive = told.copied();
                    met.extend(path.introduced().map(|address| (id, address)));
                }
            }
        }
        self.introduced = met;
        settings
    }

    /// Opens sockets to peers to which the rendezvous has introduced this gateway.
    fn meet(&mut self, host: &mut Host, now: Instant) {
        let mut any = false;
        while let Some((path, address)) = self.tunnel.poll_introduction() {
            let PathId { peer, group, member } = path;
            tracing::info!(peer, group, member, %address, "introduced");
            self.introduced.insert(path, address);
            any = true;
        }
        if any {
            self.relocate(host, now);
        }
    }

    /// Answers who waits for trains that are over.
    fn answer_trains(&mut self) {
        while let Some((number, observed)) = self.tunnel.poll_train() {
            if let Some(reply) = self.trains.remove(&number) {
                // The client may have gone away.
                drop(reply.send(observed.ok_or(TrainRefused::NoAnswer)));
            }
        }
    }

    /// Logs the tunnel's events.
    fn log_events(&mut self) {
        while let Some(event) = self.tunnel.poll_event() {
            match event {
                Event::PathUp { peer, group, member } => {
                    tracing::info!(peer, group, member, "path up");
                }
                Event::PathDown { peer, group, member, reason } => {
                    tracing::warn!(peer, group, member, %reason, "path down");
                }
                Event::Ended(reason) => tracing::debug!(%reason, "connection ended"),
                Event::Refused(error) => tracing::warn!(%error, "refused"),
                Event::CannotConnect { peer, error } => {
                    tracing::warn!(peer, %error, "cannot connect");
                }
            }
        }
    }
}

impl Transport for Quic {
    fn configure(
        &mut self,
        host: &mut Host,
        config: &Config,
        identity: Option<&Identity>,
        now: Instant,
    ) -> io::Result<()> {
        let settings = self.settings(config);
        tracing::info!(offload = settings.options.udp_offload, "UDP segmentation");
        let opened = self.open(host, &settings)?;
        if let Some(identity) = identity {
            self.tunnel.set_identity(identity, settings.options).map_err(io::Error::other)?;
        }
        self.apply(settings, opened, now);
        Ok(())
    }

    fn relocate(&mut self, host: &mut Host, now: Instant) {
        let settings = self.settings(&host.config);
        match self.open(host, &settings) {
            Ok(opened) => self.apply(settings, opened, now),
            Err(error) => tracing::warn!(%error, "cannot open the sockets of paths"),
        }
    }

    fn problems(&self) -> Vec<(IpAddr, String)> {
        self.problems.clone()
    }

    fn silent_paths(&self, now: Instant) -> Vec<PathId> {
        self.tunnel.silent_paths(now)
    }

    fn reach<'a>(&'a mut self, _: &'a mut Host) -> &'a mut Reach {
        self.tunnel.reach_mut()
    }

    fn handle_device(&mut self, host: &mut Host, now: Instant) -> io::Result<()> {
        self.device.read(host, &mut self.tunnel, now)
    }

    fn handle_ready(&mut self, host: &mut Host, event: Ready, now: Instant) {
        if let Some(proxy) = &self.proxy
            && proxy.handle_ready(host, &mut self.tunnel, event, now)
        {
            return;
        }
        self.receive(host, usize::try_from(event.token).unwrap_or(usize::MAX), now);
    }

    fn poll_timeout(&mut self, _: Instant) -> Instant {
        self.tunnel.poll_timeout()
    }

    fn advance(&mut self, host: &mut Host, now: Instant) {
        self.tunnel.handle_timeout(now);
        self.device.write(host, &mut self.tunnel, now);
        self.transmit(host, now);
        self.mtu.follow(self.tunnel.mtu(), host);
        if let Some(proxy) = &mut self.proxy {
            proxy.advance(host, &mut self.tunnel, now);
        }
        self.meet(host, now);
        self.answer_trains();
        self.log_events();
    }

    fn start_train(&mut self, request: Request, reply: Answer, now: Instant) {
        let Request { path, train, port_bps } = request;
        match self.tunnel.start_train(now, path, train, port_bps) {
            Ok(number) => drop(self.trains.insert(number, reply)),
            Err(refused) => drop(reply.send(Err(refused.into()))),
        }
    }

    fn status(&self, now: Instant) -> Vec<PeerStatus> {
        report::status(&self.tunnel, now)
    }

    fn counters(&self) -> Vec<PeerCounters> {
        report::counters(&self.tunnel)
    }

    fn unauthenticated(&self) -> UnauthenticatedCounters {
        self.tunnel.unauthenticated()
    }

    fn close(&mut self, host: &mut Host, now: Instant) {
        self.tunnel.close(now);
        self.transmit(host, now);
    }
}

/// The tunnel's part of the configuration.
fn tunnel_config(config: &Config, offload: &mut Option<bool>) -> tunnel::Config {
    let document = &config.document;
    let transport = &document.transport;
    tunnel::Config {
        branch: document.branch.clone(),
        id: document.id,
        labels: transport.labels(),
        permissions: config.permissions.clone(),
        own: OwnAddresses { v4: config.source, v6: config.source6 },
        queue_bytes: document.queue_bytes.into(),
        placement: document.placement,
        max_rate_bps: [document.max_rate_bps.urgent, document.max_rate_bps.other],
        options: Options {
            congestion: transport.congestion,
            recovery: transport.recovery,
            resequence: transport.resequence,
            header_compression: transport.header_compression,
            proxy: transport.tcp_proxy.is_used(),
            udp_offload: transport
                .udp_offload
                .unwrap_or_else(|| *offload.get_or_insert_with(udp_offload::works)),
            oversize: transport.oversize,
            newest_version: transport.wire_version,
        },
        rendezvous: config.rendezvous,
        peers: config.peers.clone(),
    }
}
