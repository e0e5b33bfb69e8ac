//! Two gateways with complete tunnels, QUIC connections included, in virtual time.
//!
//! ```text
//! send -> Tunnel -> wire 0 (rate, queue, delay, loss, reordering, MTU) -> Tunnel -> received
//!                -> wire 1 ...
//! ```

mod identity;
mod inner;
mod stream;
mod wire;

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use hawser_impair::ValueError;
use hawser_multipath::State;
use hawser_tls::Identity;
use hawser_tunnel::{
    Config, Event, MAX_DATAGRAM, Observed, PathId, Permissions, Purpose, Source, StreamReady,
    Train, TrainRefused, Tunnel,
    config::{
        Class, Congestion, Group, Options, Oversize, Path as PathConfig, Peer, Placement, Recovery,
    },
    counters::{GroupCounters, TunCounters, UnauthenticatedCounters},
};
use hawser_wire::{
    label::wide,
    tunnel::{OwnAddresses, WIRE_VERSIONS},
};

use self::wire::Path;
pub use self::{
    identity::Authority,
    inner::{host, number_of, segment},
    stream::{End as StreamEnd, Memory},
    wire::Wire,
};
use crate::sockets::Sockets;

/// Maximum datagrams of a GSO batch.
pub(crate) const BATCH: usize = 40;

/// Events at one instant, after which the simulation is considered stuck.
const MAX_EVENTS_AT_ONCE: u32 = 100_000;

/// Options of the gateways.
pub const OPTIONS: Options = Options {
    congestion: Congestion::Delay,
    recovery: Recovery::Resend,
    resequence: true,
    header_compression: true,
    proxy: true,
    udp_offload: true,
    oversize: Oversize::Answer,
    newest_version: WIRE_VERSIONS.1,
};

/// One gateway.
struct Gateway {
    config: Config,
    tunnel: Tunnel<Memory>,
    sockets: Sockets,
    /// Largest datagram of its interfaces.
    max_datagram: u16,
    /// Packets delivered to the device.
    received: Vec<Bytes>,
    /// Host ends of streams opened for the other gateway.
    opened_streams: Vec<StreamEnd>,
    ups: usize,
    downs: usize,
    device: TunCounters,
}

/// Two gateways, of which the first connects, and the paths of one group between them.
pub struct Gateways {
    epoch: Instant,
    now: Duration,
    authority: Authority,
    options: [Options; 2],
    ends: [Gateway; 2],
    paths: Vec<Path>,
    sessions: u8,
}

/// Address of a gateway on a path.
fn address(path: usize, gateway: usize) -> Ipv4Addr {
    let [path, gateway] = [path, gateway + 1].map(|n| u8::try_from(n).unwrap_or(u8::MAX));
    Ipv4Addr::new(192, 168, path, gateway)
}

impl Gateways {
    /// Two gateways before their connections are made. Results do not depend on `epoch`.
    ///
    /// # Errors
    /// A value is out of range.
    pub fn new(
        epoch: Instant,
        wires: &[Wire],
        seed: u64,
        options: Options,
    ) -> Result<Self, ValueError> {
        Self::with_options(epoch, wires, seed, [options; 2])
    }

    /// The same with options of each gateway.
    ///
    /// # Errors
    /// A value is out of range.
    pub fn with_options(
        epoch: Instant,
        wires: &[Wire],
        seed: u64,
        options: [Options; 2],
    ) -> Result<Self, ValueError> {
        let mut authority = Authority::new();
        let numbered = (0..).zip(wires);
        let paths = numbered.map(|(number, wire)| Path::new(wire, seed.wrapping_mul(31) + number));
        let paths: Vec<_> = paths.collect::<Result<_, _>>()?;
        let all: Vec<usize> = (0..wires.len()).collect();
        let mut gateway = |number: usize| {
            let [first, second] = options;
            let own = if number == 0 { first } else { second };
            let config = config(number, &all, own);
            Gateway::new(&config, &authority.identity(name(number)), 1 + number, epoch)
        };
        let ends = [gateway(0), gateway(1)];
        Ok(Self { epoch, now: Duration::ZERO, authority, options, ends, paths, sessions: 2 })
    }

    fn options_of(&self, gateway: usize) -> Options {
        let [first, second] = self.options;
        if gateway == 0 { first } else { second }
    }

    /// Current time.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.epoch + self.now
    }

    /// Restarts a gateway like a daemon that was killed: it has lost all state.
    pub fn restart(&mut self, gateway: usize) {
        self.sessions += 1;
        let all: Vec<usize> = (0..self.paths.len()).collect();
        let config = config(gateway, &all, self.options_of(gateway));
        let identity = self.authority.identity(name(gateway));
        let new = Gateway::new(&config, &identity, self.sessions.into(), self.now());
        if let Some(old) = self.ends.get_mut(gateway) {
            *old = new;
        }
    }

    /// Configures a gateway with a group of these paths only.
    pub fn configure(&mut self, gateway: usize, paths: &[usize]) {
        let (now, config) = (self.now(), config(gateway, paths, self.options_of(gateway)));
        if let Some(gateway) = self.ends.get_mut(gateway) {
            gateway.configure(config, now);
        }
    }

    /// Gives a gateway another address on a path, with this last octet, or takes it away.
    pub fn set_address(&mut self, gateway: usize, path: usize, host: Option<u8>) {
        self.change(gateway, |config| {
            let groups = config.peers.iter_mut().flat_map(|peer| &mut peer.groups);
            if let Some(config) = groups.flat_map(|group| &mut group.paths).nth(path) {
                let [a, b, c, _] = address(path, 0).octets();
                config.local = host.map(|host| Ipv4Addr::new(a, b, c, host).into());
            }
        });
    }

    /// Changes a gateway's configuration.
    pub fn change(&mut self, gateway: usize, change: impl FnOnce(&mut Config)) {
        let now = self.now();
        let Some(gateway) = self.ends.get_mut(gateway) else { return };
        let mut config = gateway.config.clone();
        change(&mut config);
        gateway.configure(config, now);
    }

    /// Binds a gateway's socket on a path to an interface, or no more.
    pub fn set_interface(&mut self, gateway: usize, path: usize, interface: Option<u32>) {
        let now = self.now();
        let Some(gateway) = self.ends.get_mut(gateway) else { return };
        let mut config = gateway.config.clone();
        let groups = config.peers.iter_mut().flat_map(|peer| &mut peer.groups);
        if let Some(config) = groups.flat_map(|group| &mut group.paths).nth(path) {
            config.interface = interface;
        }
        gateway.configure(config, now);
    }

    /// Gives the second of two paths of a gateway the address of the first.
    pub fn share_address(&mut self, gateway: usize, (first, second): (usize, usize)) {
        let (now, shared) = (self.now(), address(first, gateway).into());
        for (number, end) in self.ends.iter_mut().enumerate() {
            let mut config = end.config.clone();
            let groups = config.peers.iter_mut().flat_map(|peer| &mut peer.groups);
            if let Some(path) = groups.flat_map(|group| &mut group.paths).nth(second) {
                let end = if number == gateway { &mut path.local } else { &mut path.remote };
                *end = Some(shared);
            }
            end.configure(config, now);
        }
    }

    /// Numbers of a gateway's sockets, with the interface that each is bound to.
    #[must_use]
    pub fn sockets(&self, gateway: usize) -> Vec<(usize, Option<u32>)> {
        let sockets = self.ends.get(gateway).into_iter().flat_map(|gateway| gateway.sockets.iter());
        sockets.map(|(number, socket)| (*number, socket.interface)).collect()
    }

    /// Sets the largest datagram that interfaces of a gateway take, for sockets opened from now on.
    pub fn set_max_datagram(&mut self, gateway: usize, max_datagram: u16) {
        if let Some(gateway) = self.ends.get_mut(gateway) {
            gateway.max_datagram = max_datagram;
        }
    }

    /// Replaces a path by another line; what is on its way is lost.
    ///
    /// # Errors
    /// A value is out of range.
    pub fn replace(&mut self, path: usize, wire: &Wire) -> Result<(), ValueError> {
        if let Some(old) = self.paths.get_mut(path) {
            *old = Path::new(wire, 7)?;
        }
        Ok(())
    }

    /// Makes a path drop everything, or work again.
    pub fn cut(&mut self, path: usize, cut: bool) {
        if let Some(path) = self.paths.get_mut(path) {
            path.cut = cut;
        }
    }

    /// Sets the MTU of a path, bytes.
    pub fn set_mtu(&mut self, path: usize, mtu: usize) {
        if let Some(path) = self.paths.get_mut(path) {
            path.mtu = mtu;
        }
    }

    /// A packet arrives at a gateway's device.
    pub fn send(&mut self, gateway: usize, packet: &[u8]) {
        let now = self.now();
        if let Some(Gateway { tunnel, device, .. }) = self.ends.get_mut(gateway) {
            tunnel.handle_packet(now, packet, None, device, |_| Class::II);
        }
    }

    /// A forged datagram arrives at a gateway's socket on a path.
    pub fn inject(&mut self, gateway: usize, path: usize, bytes: &[u8]) {
        let (now, at) = (self.now(), address(path, gateway));
        let unknown_peer = SocketAddr::from((address(path, 1 - gateway), 9));
        let Some(gateway) = self.ends.get_mut(gateway) else { return };
        let mut sockets = gateway.sockets.iter().map(|(_, socket)| socket);
        let Some(socket) = sockets.find(|socket| socket.address.ip() == at) else { return };
        let from = match socket.purpose {
            Purpose::Connector { remote, .. } => remote,
            _ => unknown_peer,
        };
        let to = socket.address;
        gateway.input(now, from, to, bytes.into());
    }

    /// A datagram from an address arrives at a gateway's socket on a path.
    pub fn inject_from(&mut self, gateway: usize, path: usize, from: SocketAddr, bytes: &[u8]) {
        let (now, at) = (self.now(), address(path, gateway));
        let Some(gateway) = self.ends.get_mut(gateway) else { return };
        let mut addresses = gateway.sockets.iter().map(|(_, socket)| socket.address);
        let to = addresses.find(|to| to.ip() == at);
        if let Some(to) = to {
            gateway.input(now, from, to, bytes.into());
        }
    }

    /// A gateway's counters of unauthenticated connections.
    #[must_use]
    pub fn unauthenticated(&self, gateway: usize) -> UnauthenticatedCounters {
        self.ends.get(gateway).map(|gateway| gateway.tunnel.unauthenticated()).unwrap_or_default()
    }

    /// Calls one of a tunnel's methods out of turn and discards the result.
    pub fn call_out_of_turn(&mut self, gateway: usize, which: u8) {
        let now = self.now();
        let Some(Gateway { tunnel, .. }) = self.ends.get_mut(gateway) else { return };
        match which % 6 {
            0 => drop(tunnel.poll_transmit(now)),
            1 => tunnel.handle_timeout(now),
            2 => drop(tunnel.poll_packet(now)),
            3 => drop(tunnel.poll_connect()),
            4 => tunnel.set_max_batch(usize::from(which) / 6 % 3, usize::from(which) / 18),
            _ => drop(tunnel.poll_event()),
        }
    }

    /// A client behind a gateway connects to a host behind the other; returns the client's end.
    pub fn connect(&mut self, gateway: usize, port: u16) -> StreamEnd {
        self.connect_from(gateway, host(gateway), port)
    }

    /// The same for a client with another address behind the gateway.
    pub fn connect_from(&mut self, gateway: usize, client: Ipv4Addr, port: u16) -> StreamEnd {
        let now = self.now();
        let [client, server] = [client, host(1 - gateway)].map(|ip| SocketAddr::from((ip, port)));
        let (stream, end) = stream::pair();
        if let Some(gateway) = self.ends.get_mut(gateway) {
            end.set_number(gateway.tunnel.next_stream());
            gateway.tunnel.handle_accepted(now, stream, (client, server), Class::II);
            gateway.wake(&end);
        }
        end
    }

    /// Lets a gateway look at a stream whose host end has changed.
    pub fn wake(&mut self, gateway: usize, end: &StreamEnd) {
        if let Some(gateway) = self.ends.get_mut(gateway) {
            gateway.wake(end);
        }
    }

    /// Host ends of the streams that a gateway has opened for the other, in order.
    #[must_use]
    pub fn opened_streams(&self, gateway: usize) -> &[StreamEnd] {
        self.ends.get(gateway).map(|gateway| gateway.opened_streams.as_slice()).unwrap_or_default()
    }

    /// Begins to send a train on a path of a gateway with ports of 1 Gbit/s.
    pub fn start_train(
        &mut self,
        gateway: usize,
        path: usize,
        train: Train,
    ) -> Result<u32, TrainRefused> {
        let now = self.now();
        let peer = if gateway == 0 { 2 } else { 1 };
        let member = u8::try_from(path).unwrap_or(u8::MAX);
        let path = PathId { peer, group: 0, member };
        let gateway = self.ends.get_mut(gateway).ok_or(TrainRefused::NoPath)?;
        gateway.tunnel.start_train(now, path, train, 1_000_000_000)
    }

    /// The next of a gateway's trains that is over: its number, and what became of it.
    pub fn take_train(&mut self, gateway: usize) -> Option<(u32, Option<Observed>)> {
        self.ends.get_mut(gateway)?.tunnel.poll_train()
    }

    /// States of a gateway's paths that have a connection.
    #[must_use]
    pub fn path_states(&self, gateway: usize) -> Vec<Option<State>> {
        let now = self.now();
        let groups = self.ends.get(gateway).into_iter().flat_map(|g| g.tunnel.report());
        let paths = groups.flat_map(|(_, groups)| groups.flat_map(|group| group.paths()));
        paths.map(|path| path.measured(now, |path, _, _| path.state(now))).collect()
    }

    /// Of a gateway's paths, the rate in bit/s, the share of bytes lost, and bytes lost in all.
    #[must_use]
    pub fn path_models(&self, gateway: usize) -> Vec<Option<(f64, f64, u64)>> {
        let now = self.now();
        let groups = self.ends.get(gateway).into_iter().flat_map(|g| g.tunnel.report());
        let paths = groups.flat_map(|(_, groups)| groups.flat_map(|group| group.paths()));
        let model = |path: &hawser_multipath::Path| {
            let rate = path.congestion().rate().bits_per_second();
            (rate, path.loss(now), path.totals().lost)
        };
        paths.map(|path| path.measured(now, |path, _, _| model(path))).collect()
    }

    /// Packets delivered by a gateway's device since the last call.
    pub fn take_received(&mut self, gateway: usize) -> Vec<Bytes> {
        let gateway = self.ends.get_mut(gateway);
        gateway.map(|gateway| std::mem::take(&mut gateway.received)).unwrap_or_default()
    }

    /// How often paths of a gateway came up and went down.
    #[must_use]
    pub fn path_changes(&self, gateway: usize) -> (usize, usize) {
        self.ends.get(gateway).map(|gateway| (gateway.ups, gateway.downs)).unwrap_or_default()
    }

    /// How many connections of a gateway took another's place.
    #[must_use]
    pub fn reconnects(&self, gateway: usize) -> u64 {
        let groups = self.ends.get(gateway).into_iter().flat_map(|g| g.tunnel.report());
        groups.flat_map(|(_, groups)| groups.map(|group| group.reconnects())).sum()
    }

    /// Counters of a gateway's path group.
    #[must_use]
    pub fn counters(&self, gateway: usize) -> GroupCounters {
        let groups = self.ends.get(gateway).into_iter().flat_map(|g| g.tunnel.report());
        let mut counters = groups.flat_map(|(_, groups)| groups.map(|group| group.counters()));
        counters.next().unwrap_or_default()
    }

    /// Largest inner packet that goes whole over every path of a gateway, as its device is told.
    #[must_use]
    pub fn mtu(&self, gateway: usize) -> Option<u16> {
        self.ends.get(gateway).and_then(|gateway| gateway.tunnel.mtu())
    }

    /// Bytes queued in a gateway's path group.
    #[must_use]
    pub fn queued(&self, gateway: usize) -> u64 {
        let groups = self.ends.get(gateway).into_iter().flat_map(|g| g.tunnel.report());
        groups.flat_map(|(_, groups)| groups.map(|group| group.queued_bytes())).sum()
    }

    /// Per path with a connection: bytes sent, and MTU (UDP payload).
    #[must_use]
    pub fn paths(&self, gateway: usize) -> Vec<Option<(u64, u16)>> {
        let now = self.now();
        let groups = self.ends.get(gateway).into_iter().flat_map(|g| g.tunnel.report());
        let paths = groups.flat_map(|(_, groups)| groups.flat_map(|group| group.paths()));
        paths.map(|path| path.measured(now, |path, _, mtu| (path.totals().sent, mtu))).collect()
    }

    /// Advances time by `span`.
    pub fn run(&mut self, span: Duration) {
        let end = self.now + span;
        let mut left = MAX_EVENTS_AT_ONCE;
        self.settle();
        while let Some(at) = self.next().filter(|at| *at <= end) {
            left = if at > self.now { MAX_EVENTS_AT_ONCE } else { left - 1 };
            self.now = self.now.max(at);
            self.arrive();
            let now = self.now();
            for gateway in &mut self.ends {
                gateway.tunnel.handle_timeout(now);
            }
            self.settle();
        }
        self.now = end;
    }

    /// Time of the next event.
    fn next(&mut self) -> Option<Duration> {
        let paths = self.paths.iter().filter_map(Path::next);
        let epoch = self.epoch;
        let timeouts = self.ends.iter_mut().map(|gateway| gateway.tunnel.poll_timeout());
        paths.chain(timeouts.map(|at| at.saturating_duration_since(epoch))).min()
    }

    /// Delivers datagrams from the paths.
    fn arrive(&mut self) {
        let now = self.epoch + self.now;
        for path in &mut self.paths {
            for (to, gateway) in self.ends.iter_mut().enumerate() {
                while let Some(datagram) = path.receive(self.now, to) {
                    gateway.input(now, datagram.from, datagram.to, datagram.bytes);
                }
            }
        }
    }

    /// Does everything that is due now.
    fn settle(&mut self) {
        let (now, at) = (self.now(), self.now);
        for (number, gateway) in self.ends.iter_mut().enumerate() {
            loop {
                gateway.take_packets(now);
                while let Some(transmit) = gateway.tunnel.poll_transmit(now) {
                    let Some(socket) = gateway.sockets.get(transmit.socket) else { continue };
                    let SocketAddr::V4(from) = socket.address else { continue };
                    let [_, _, path, _] = from.ip().octets();
                    let Some(path) = self.paths.get_mut(usize::from(path)) else { continue };
                    let one = transmit.segment_size.unwrap_or(transmit.contents.len());
                    for bytes in transmit.contents.chunks(one.max(1)) {
                        path.send(at, 1 - number, (from.into(), transmit.destination), bytes);
                    }
                }
                if !gateway.connect_streams() {
                    break;
                }
            }
            gateway.take_events();
        }
    }
}

impl Gateway {
    fn new(config: &Config, identity: &Identity, session: usize, now: Instant) -> Self {
        let session = (session as u128).to_be_bytes();
        #[allow(clippy::expect_used)] // its suites are those that QUIC needs
        let tunnel = Tunnel::new(config, identity, session, now).expect("identity");
        let mut this = Self {
            config: config.clone(),
            tunnel,
            sockets: Sockets::default(),
            max_datagram: MAX_DATAGRAM,
            received: Vec::new(),
            opened_streams: Vec::new(),
            ups: 0,
            downs: 0,
            device: TunCounters::default(),
        };
        this.configure(config.clone(), now);
        this
    }

    fn configure(&mut self, config: Config, now: Instant) {
        let opened = self.sockets.follow(&self.tunnel, &config, (BATCH, self.max_datagram));
        self.config = config.clone();
        self.tunnel.configure(now, config, opened);
    }

    /// A datagram arrives.
    fn input(&mut self, now: Instant, from: SocketAddr, to: SocketAddr, bytes: BytesMut) {
        if let Some(number) = self.sockets.reached(from, to) {
            let source = Source { remote: from, local: Some(to.ip()), ecn: None, received: None };
            self.tunnel.handle_input(now, number, source, bytes);
        }
    }

    fn take_packets(&mut self, now: Instant) {
        while let Some(incoming) = self.tunnel.poll_packet(now) {
            self.received.push(incoming.packet);
        }
    }

    fn connect_streams(&mut self) -> bool {
        let mut any = false;
        while let Some(wanted) = self.tunnel.poll_connect() {
            let (stream, end) = stream::pair();
            end.set_number(self.tunnel.next_stream());
            self.tunnel.handle_connecting(&wanted, Ok(stream), Class::II);
            self.wake(&end);
            self.opened_streams.push(end);
            any = true;
        }
        any
    }

    fn wake(&mut self, end: &StreamEnd) {
        let ready = StreamReady { readable: true, writable: true, failed: end.has_failed() };
        self.tunnel.handle_stream(end.number(), ready);
    }

    fn take_events(&mut self) {
        while let Some(event) = self.tunnel.poll_event() {
            self.ups += usize::from(matches!(event, Event::PathUp { .. }));
            self.downs += usize::from(matches!(event, Event::PathDown { .. }));
        }
    }
}

fn name(gateway: usize) -> &'static str {
    if gateway == 0 { "b1" } else { "b2" }
}

/// Configuration of a gateway whose group has these paths.
fn config(gateway: usize, paths: &[usize], options: Options) -> Config {
    let other = 1 - gateway;
    let path = |path: &usize| PathConfig {
        local: Some(address(*path, gateway).into()),
        remote: Some(address(*path, other).into()),
        ..PathConfig::default()
    };
    let group = Group::new(0, Class::II, paths.iter().map(path).collect());
    let id = |gateway: usize| if gateway == 0 { 1 } else { 2 };
    let prefixes = inner::prefix(other).into_iter().collect();
    let peer = Peer { branch: name(other).into(), id: id(other), prefixes, groups: vec![group] };
    Config {
        branch: name(gateway).into(),
        id: id(gateway),
        labels: wide::Layout::default(),
        permissions: Permissions::default(),
        own: OwnAddresses { v4: None, v6: None },
        queue_bytes: 1_000_000,
        placement: Placement::default(),
        max_rate_bps: [None; 2],
        options,
        rendezvous: None,
        peers: vec![peer],
    }
}
