//! Gateways behind NATs, with complete tunnels, in virtual time.
//!
//! ```text
//!  b1 -- NAT --+                +-- NAT -- b2
//!              |   b3, public   |
//!              +------ | -------+        each access has a delay, and loses nothing
//! ```

mod nat;

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use hawser_tunnel::{
    Config, GroupView, PathId, Permissions, Source, Tunnel,
    config::{Class, Group, Options, Path, Peer, Placement},
    counters::{RendezvousCounters, TunCounters},
};
use hawser_wire::{label::wide, tunnel::OwnAddresses};
use ipnet::{IpNet, Ipv4Net};

pub use self::nat::{Mapping, Nat};
use crate::{
    gateways::{Authority, BATCH, Memory},
    sockets::Sockets,
};

/// Largest datagram of the interfaces.
const MAX_DATAGRAM: u16 = 1472;

/// Number of the branch that introduces the others, from 1.
const RENDEZVOUS: u16 = 3;

/// A gateway and its access.
struct Site {
    config: Config,
    tunnel: Tunnel<Memory>,
    sockets: Sockets,
    introduced: BTreeMap<(u16, u8, u8), SocketAddr>,
    nat: Option<Nat>,
    delay: Duration,
    received: Vec<Bytes>,
    device: TunCounters,
}

/// A datagram on its way.
struct InFlight {
    from: SocketAddr,
    to: SocketAddr,
    bytes: Vec<u8>,
}

/// What is known of the path between the first two gateways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Met {
    /// Whether it has a connection.
    pub up: bool,
    /// Whether that leads through the rendezvous.
    pub relayed: bool,
    /// Where the rendezvous has said that the peer is.
    pub reflexive: Option<SocketAddr>,
}

/// Three gateways, of which the third introduces the others.
pub struct Sites {
    epoch: Instant,
    now: Duration,
    all: Vec<Site>,
    flying: BTreeMap<(Duration, u64), InFlight>,
    sent: u64,
    authority: Authority,
    /// Whether datagrams between the first two gateways' accesses are dropped.
    pub apart: bool,
}

fn branch(number: u16) -> String {
    format!("b{number}")
}

/// Address of a gateway, behind its NAT if it has one.
fn address(number: u16) -> Ipv4Addr {
    let [_, host] = number.to_be_bytes();
    if number == RENDEZVOUS {
        Ipv4Addr::new(198, 18, 0, host)
    } else {
        Ipv4Addr::new(10, 99, host, 2)
    }
}

impl Sites {
    /// The three gateways before their connections are made. Each access has a NAT or none, and a one-way
    /// delay. The third has no NAT.
    #[must_use]
    pub fn new(
        accesses: [(Option<Nat>, Duration); 3],
        options: [Options; 3],
        epoch: Instant,
    ) -> Self {
        let mut authority = Authority::new();
        let numbered = (1..).zip(accesses.into_iter().zip(options));
        let site = |(number, ((nat, delay), options)): (u16, _)| {
            Site::new(
                &config(number, options),
                &mut authority,
                (nat, delay),
                (number.into(), epoch),
            )
        };
        let all = numbered.map(site).collect();
        let (flying, now) = (BTreeMap::new(), Duration::ZERO);
        Self { epoch, now, all, flying, sent: 0, authority, apart: false }
    }

    /// Restarts a gateway like a daemon that was killed.
    pub fn restart(&mut self, gateway: usize) {
        let now = self.epoch + self.now;
        self.sent += 1;
        let session = u128::from(self.sent) << 64;
        if let Some(site) = self.all.get_mut(gateway) {
            let access = (site.nat.take(), site.delay);
            *site = Site::new(&site.config.clone(), &mut self.authority, access, (session, now));
        }
    }

    /// The NAT of a gateway.
    pub fn nat(&mut self, gateway: usize) -> Option<&mut Nat> {
        self.all.get_mut(gateway)?.nat.as_mut()
    }

    /// A packet arrives at a gateway's device.
    pub fn send(&mut self, gateway: usize, packet: &[u8]) {
        let now = self.epoch + self.now;
        if let Some(Site { tunnel, device, .. }) = self.all.get_mut(gateway) {
            tunnel.handle_packet(now, packet, None, device, |_| Class::II);
        }
    }

    /// Packets delivered by a gateway's device since the last call.
    pub fn take_received(&mut self, gateway: usize) -> Vec<Bytes> {
        let site = self.all.get_mut(gateway);
        site.map(|site| std::mem::take(&mut site.received)).unwrap_or_default()
    }

    /// The path of one of the first two gateways to the other.
    #[must_use]
    pub fn met(&self, gateway: usize) -> Met {
        let Some(site) = self.all.get(gateway) else { return Met::default() };
        let other = branch(if gateway == 0 { 2 } else { 1 });
        let groups = site.tunnel.report().filter(|(peer, _)| peer.branch == other);
        let mut paths = groups.flat_map(|(_, groups)| {
            groups
                .map(|group: GroupView<'_>| group.paths().next().map(|path| (group.is_up(), path)))
        });
        let Some(Some((up, path))) = paths.next() else { return Met::default() };
        Met { up, relayed: path.is_relayed(), reflexive: path.config.introduced() }
    }

    /// Where the rendezvous sees a gateway.
    #[must_use]
    pub fn observed(&self, gateway: usize) -> Option<SocketAddr> {
        let site = self.all.get(gateway)?;
        let mut groups = site.tunnel.report().filter(|(peer, _)| peer.id == RENDEZVOUS);
        let (_, mut groups) = groups.next()?;
        groups.next()?.paths().next()?.observed()
    }

    /// What a gateway counts of introductions, over all peers.
    #[must_use]
    pub fn counters(&self, gateway: usize) -> RendezvousCounters {
        let reports = self.all.get(gateway).into_iter().flat_map(|site| site.tunnel.report());
        let all = reports.flat_map(|(_, groups)| groups.map(|group| group.counters().rendezvous));
        all.fold(RendezvousCounters::default(), |sum, one| RendezvousCounters {
            introductions: sum.introductions + one.introductions,
            ignored: sum.ignored + one.ignored,
            relayed: sum.relayed + one.relayed,
            relayed_bytes: sum.relayed_bytes + one.relayed_bytes,
            not_relayed: sum.not_relayed + one.not_relayed,
        })
    }

    /// Advances time by `span`.
    pub fn run(&mut self, span: Duration) {
        let end = self.now + span;
        self.settle();
        while let Some(at) = self.next().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            while let Some(first) =
                self.flying.first_entry().filter(|first| first.key().0 <= self.now)
            {
                let datagram = first.remove();
                self.arrive(datagram);
            }
            let now = self.epoch + self.now;
            self.all.iter_mut().for_each(|site| site.tunnel.handle_timeout(now));
            self.settle();
        }
        self.now = end;
    }

    fn next(&mut self) -> Option<Duration> {
        let epoch = self.epoch;
        let timers = self.all.iter_mut().map(|site| site.tunnel.poll_timeout());
        let timers = timers.map(|at| at.saturating_duration_since(epoch));
        timers.chain(self.flying.keys().map(|(at, _)| *at).take(1)).min()
    }

    fn arrive(&mut self, InFlight { from, to, bytes }: InFlight) {
        let now = self.epoch + self.now;
        for site in &mut self.all {
            let inner = match &mut site.nat {
                Some(nat) => nat.inbound(from, to),
                None => Some(to),
            };
            if let Some(inner) = inner {
                site.input(now, from, inner, &bytes);
            }
        }
    }

    /// Does everything that is due now.
    fn settle(&mut self) {
        let now = self.epoch + self.now;
        let public: Vec<_> = self.all.iter().map(|site| (site.public(), site.delay)).collect();
        for (number, site) in self.all.iter_mut().enumerate() {
            site.take_packets(now);
            site.meet(now);
            while let Some(transmit) = site.tunnel.poll_transmit(now) {
                let Some(socket) = site.sockets.get(transmit.socket) else { continue };
                let (inner, to) = (socket.address, transmit.destination);
                let from = site.nat.as_mut().map_or(inner, |nat| nat.outbound(inner, to));
                let Some(far) = public.iter().position(|(ip, _)| to.ip() == *ip) else { continue };
                let delay =
                    site.delay + public.get(far).map_or(Duration::ZERO, |(_, delay)| *delay);
                if self.apart && number + far == 1 {
                    continue;
                }
                let one = transmit.segment_size.unwrap_or(transmit.contents.len());
                for bytes in transmit.contents.chunks(one.max(1)) {
                    self.sent += 1;
                    let datagram = InFlight { from, to, bytes: bytes.to_vec() };
                    self.flying.insert((self.now + delay, self.sent), datagram);
                }
            }
        }
    }
}

impl Site {
    fn new(
        config: &Config,
        authority: &mut Authority,
        (nat, delay): (Option<Nat>, Duration),
        (session, now): (u128, Instant),
    ) -> Self {
        let identity = authority.identity(&config.branch);
        #[allow(clippy::expect_used)] // its suites are those that QUIC needs
        let tunnel = Tunnel::new(config, &identity, session.to_be_bytes(), now).expect("identity");
        let mut this = Self {
            config: config.clone(),
            tunnel,
            sockets: Sockets::default(),
            introduced: BTreeMap::new(),
            nat,
            delay,
            received: Vec::new(),
            device: TunCounters::default(),
        };
        this.configure(now);
        this
    }

    fn public(&self) -> std::net::IpAddr {
        self.nat.as_ref().map_or_else(|| address(self.config.id), Nat::address).into()
    }

    /// Opens the sockets of the configuration, as a daemon does.
    fn configure(&mut self, now: Instant) {
        let mut config = self.config.clone();
        for peer in &mut config.peers {
            for group in &mut peer.groups {
                for (member, path) in (0..).zip(&mut group.paths) {
                    path.reflexive = self.introduced.get(&(peer.id, group.id, member)).copied();
                }
            }
        }
        let opened = self.sockets.follow(&self.tunnel, &config, (BATCH, MAX_DATAGRAM));
        self.tunnel.configure(now, config, opened);
    }

    /// A datagram arrives.
    fn input(&mut self, now: Instant, from: SocketAddr, to: SocketAddr, bytes: &[u8]) {
        if let Some(number) = self.sockets.reached(from, to) {
            let source = Source { remote: from, local: Some(to.ip()), ecn: None, received: None };
            self.tunnel.handle_input(now, number, source, BytesMut::from(bytes));
            self.take_packets(now);
        }
    }

    fn take_packets(&mut self, now: Instant) {
        while let Some(incoming) = self.tunnel.poll_packet(now) {
            self.received.push(incoming.packet);
        }
        while self.tunnel.poll_event().is_some() {}
    }

    /// Opens sockets to peers to which the rendezvous has introduced the gateway.
    fn meet(&mut self, now: Instant) {
        let mut any = false;
        while let Some((PathId { peer, group, member }, told)) = self.tunnel.poll_introduction() {
            self.introduced.insert((peer, group, member), told);
            any = true;
        }
        if any {
            self.configure(now);
        }
    }
}

/// Configuration of a branch with one path to each other. Only the rendezvous has an address that the others know.
fn config(number: u16, options: Options) -> Config {
    let peer = |other: u16| {
        let remote = (other == RENDEZVOUS).then(|| address(other).into());
        let path = Path { local: Some(address(number).into()), remote, ..Path::default() };
        let [_, net] = other.to_be_bytes();
        let prefix = Ipv4Net::new(Ipv4Addr::new(10, net, 0, 0), 24).map(IpNet::from);
        let groups = vec![Group::new(0, Class::II, vec![path])];
        Peer { branch: branch(other), id: other, prefixes: prefix.into_iter().collect(), groups }
    };
    Config {
        branch: branch(number),
        id: number,
        labels: wide::Layout::default(),
        permissions: Permissions::default(),
        own: OwnAddresses { v4: None, v6: None },
        queue_bytes: 1_000_000,
        placement: Placement::default(),
        max_rate_bps: [None; 2],
        options,
        rendezvous: Some(RENDEZVOUS),
        peers: (1..=3).filter(|other| *other != number).map(peer).collect(),
    }
}
