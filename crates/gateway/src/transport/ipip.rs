//! The `ipip` transport: one tunnel per path group of each peer, over the group's first path, for
//! IPv4 and IPv6. Packets are sent and received in batches.

use std::{
    io,
    net::IpAddr,
    ops::Range,
    time::{Duration, Instant},
};

use hawser_netdev::{
    ipip::{BATCH, Batch, Tunnel},
    mtu,
    poll::{Interest, Poller, Ready},
    routes::Family,
};
use hawser_tls::Identity;
use hawser_tunnel::{
    PathGroup, PathId, Peer, Peers,
    config::{self, Class, Path},
    counters::{GroupCounters, PeerDrops, UnauthenticatedCounters},
};
use hawser_wire::{flow, ip, ipv6::LEAST_MTU, tcp};
use rustix::io::Errno;

use super::{Host, Transport, may_change};
use crate::{
    config::Config,
    status::{GroupStatus, NumberedCounters, PeerCounters, PeerStatus},
};

/// Space for a packet: an outer header with all options, and the largest inner packet.
const SLOT: usize = 60 + u16::MAX as usize;

/// Batches per descriptor and turn.
const BUDGET: usize = 4;

/// Kernel buffer of a tunnel, bytes, per direction.
const BUFFER: usize = 4 << 20;

/// Maximum wait of the loop.
const TICK: Duration = Duration::from_secs(1);

/// Versions of the packets inside.
const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

/// The path that a group's tunnel uses: the first.
fn path(group: &config::Group) -> Option<Path> {
    group.paths.first().copied()
}

/// A path group: a tunnel needs no connection.
struct Group {
    config: config::Group,
    /// None while its addresses are missing.
    tunnel: Option<Tunnel>,
    /// Where the tunnel was opened, and why that failed.
    opened: Option<Path>,
    problem: Option<(IpAddr, String)>,
    counters: GroupCounters,
}

/// This end of a tunnel.
struct End {
    tunnel: Option<Tunnel>,
    path: Option<Path>,
    problem: Option<(IpAddr, String)>,
}

impl End {
    /// Opens it between the addresses that a path has now, if it has them.
    fn open(path: Option<Path>, poller: &Poller) -> io::Result<Self> {
        let nothing = Self { tunnel: None, path, problem: None };
        let Some(interface) = path.map(|path| path.interface) else { return Ok(nothing) };
        let Some((local, remote)) = path.and_then(|path| path.ends()) else { return Ok(nothing) };
        match Tunnel::open(local, remote, interface, BUFFER) {
            Ok(tunnel) => {
                for inner in FAMILIES {
                    poller.add(tunnel.descriptor(inner), 0, Interest::Read)?;
                }
                Ok(Self { tunnel: Some(tunnel), ..nothing })
            }
            Err(error) if may_change(&error) => {
                Ok(Self { problem: Some((local, error.to_string())), ..nothing })
            }
            Err(e) => {
                Err(io::Error::new(e.kind(), format!("tunnel from {local} to {remote}: {e}")))
            }
        }
    }
}

impl Group {
    fn new(group: &config::Group) -> Self {
        let counters = GroupCounters::default();
        Self { config: group.clone(), tunnel: None, opened: None, problem: None, counters }
    }

    /// Goes on with this end.
    fn set_end(&mut self, end: End) {
        (self.tunnel, self.opened, self.problem) = (end.tunnel, end.path, end.problem);
    }

    /// Whether its end is where a path leads.
    fn is_at(&self, path: Option<Path>) -> bool {
        self.tunnel.is_some() && self.opened == path
    }

    fn status(&self, flows: u32) -> GroupStatus {
        GroupStatus {
            id: self.config.id,
            up: self.tunnel.is_some(),
            subflows: self.tunnel.is_some().into(),
            reconnects: 0,
            remote: path(&self.config).and_then(|path| path.remote).map(|to| to.to_string()),
            encrypted: false,
            queued_bytes: 0,
            paths: Vec::new(),
            flows,
            tcp_proxy: false,
            tcp_proxy_flows: 0,
            mtu: None,
            waiting: Vec::new(),
            wire_version: None,
            trains: false,
        }
    }
}

impl PathGroup for Group {
    fn config(&self) -> &config::Group {
        &self.config
    }

    fn set_config(&mut self, config: &config::Group) {
        self.config = config.clone();
    }

    fn is_usable(&self, _: Instant) -> bool {
        self.tunnel.is_some()
    }

    fn queued(&self) -> u64 {
        0
    }

    fn sent(&self) -> u64 {
        self.counters.sent.bytes
    }
}

/// Indices of peer and group, and the version of the packet.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Target {
    peer: usize,
    group: usize,
    inner: Family,
}

/// The transport.
pub(crate) struct Ipip {
    peers: Peers<Group>,
    /// Packets from the device, and where each goes.
    outgoing: Batch,
    targets: [Target; BATCH],
    incoming: Batch,
    /// See [`Transport::mtu`].
    mtu: u16,
    next_tick: Instant,
}

impl Ipip {
    /// No peers yet.
    pub(crate) fn new(host: &Host) -> Self {
        Self {
            peers: Peers::new(host.config.document.placement, Instant::now()),
            outgoing: Batch::new(SLOT),
            targets: [Target { peer: 0, group: 0, inner: Family::V4 }; BATCH],
            incoming: Batch::new(SLOT),
            mtu: 0,
            next_tick: Instant::now(),
        }
    }

    /// Looks up the destination of the packet just read into the batch.
    fn route(&mut self, host: &mut Host, len: usize, now: Instant) {
        let Ok(packet) = ip::Packet::parse(self.outgoing.written(len)) else {
            host.device.drops.malformed += 1;
            return;
        };
        let inner = match packet {
            ip::Packet::V4(_) => Family::V4,
            ip::Packet::V6(_) => Family::V6,
        };
        host.device.read.add(1, len);
        host.reach.note(&packet, now);
        let Some(peer) = self.peers.index_by_address(packet.destination()) else {
            host.device.drops.unknown_destination += 1;
            return;
        };
        let group = self.peers.choose(peer, flow::hash(&packet), Class::II, now);
        let place = self.targets.get_mut(self.outgoing.len());
        if let (Some(group), Some(place)) = (group, place) {
            *place = Target { peer, group, inner };
            self.outgoing.push(len);
        }
    }

    /// Sends the batch: adjacent packets with the same target together.
    fn flush(&mut self) {
        let mut start = 0;
        let targets = self.targets.get(..self.outgoing.len()).unwrap_or_default();
        for run in targets.chunk_by(|a, b| a == b) {
            let end = start + run.len();
            let Some(&Target { peer, group, inner }) = run.first() else { continue };
            let peer = self.peers.get_mut(peer);
            if let Some(group) = peer.and_then(|peer| peer.groups.get_mut(group)) {
                let counters = &mut group.counters;
                match &group.tunnel {
                    Some(tunnel) => send((tunnel, inner), &mut self.outgoing, start..end, counters),
                    None => counters.drops.peer_down += (end - start) as u64,
                }
            }
            start = end;
        }
        self.outgoing.clear();
    }

    /// The smallest MTU of any tunnel, as far as the kernel has heard of it (RFC 1191), at most that
    /// of the configuration, and not less than IPv6 needs: the kernel fragments the outer packets of
    /// what is in between (RFC 4213 section 3.2.1, RFC 2473 section 7.1).
    fn path_mtu(&self, config: &Config) -> u16 {
        let groups = self.peers.iter().flat_map(|peer| &peer.groups);
        let path = groups.filter_map(|group| group.tunnel.as_ref()?.mtu().ok()).min();
        let least = if config.has_ipv6() { LEAST_MTU } else { 0 };
        path.unwrap_or(u16::MAX).max(least).min(config.mtu())
    }

    /// Receives from a tunnel and writes to the device.
    fn deliver(&mut self, host: &mut Host, from: Target, now: Instant) {
        let Target { peer, group, inner: family } = from;
        let Some((found, table)) = self.peers.peer_and_table(peer) else { return };
        let Peer { config, groups, .. } = found;
        let Some(group) = groups.get_mut(group) else { return };
        let Some(tunnel) = &group.tunnel else { return };
        for _ in 0..BUDGET {
            match tunnel.receive(family, &mut self.incoming) {
                Ok(()) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    // Such as an ICMP error about the path; the tunnel stays in use.
                    tracing::debug!(peer = config.branch, %error, "tunnel");
                    return;
                }
            }
            for outer in self.incoming.iter() {
                let inner = tunnel.decapsulate(family, outer);
                let Some(packet) = inner.and_then(|inner| ip::Packet::parse(inner).ok()) else {
                    group.counters.drops.malformed += 1;
                    continue;
                };
                let bytes = packet.bytes();
                group.counters.received.add(1, bytes.len());
                let drops = &mut group.counters.drops;
                if table.peer(packet.source()) != Some(peer) {
                    drops.foreign_source += 1;
                } else if let Err(denied) = host.reach.check(&packet, now) {
                    denied.count(drops);
                } else if host.tun.write(bytes, None).is_ok() {
                    host.device.written.add(1, bytes.len());
                } else {
                    host.device.drops.write_failed += 1;
                }
            }
        }
    }

    /// Has the path groups of a configuration, with tunnels between the addresses they have now. On
    /// error nothing has changed.
    fn follow(&mut self, host: &Host, config: &Config) -> io::Result<()> {
        let poller = &host.poller;
        let moved = self.open_moved(poller, config)?;
        let open = |_: &_, config: &config::Group| {
            let mut group = Group::new(config);
            group.set_end(End::open(path(config), poller)?);
            Ok::<_, io::Error>(group)
        };
        self.peers.reconcile(config.document.id, &config.peers, open)?;
        for (peer, group, end) in moved {
            if let Some(group) = self.peers.group_mut(peer, group) {
                group.set_end(end);
            }
        }
        self.update_tokens(host)
    }

    /// Opens new ends for groups that stay and whose path leads elsewhere: numbers of peer and group
    /// with each.
    fn open_moved(&self, poller: &Poller, config: &Config) -> io::Result<Vec<(u16, u8, End)>> {
        let mut opened = Vec::new();
        for peer in &config.peers {
            let known =
                self.peers.by_id(peer.id).filter(|known| known.config.branch == peer.branch);
            for wanted in &peer.groups {
                let stays = known.and_then(|known| known.group(wanted.id));
                let stays = stays.filter(|group| group.config.is_same_as(wanted));
                if stays.is_some_and(|group| !group.is_at(path(wanted))) {
                    opened.push((peer.id, wanted.id, End::open(path(wanted), poller)?));
                }
            }
        }
        Ok(opened)
    }

    /// Updates the poller after peers and groups may have changed their indices.
    fn update_tokens(&self, host: &Host) -> io::Result<()> {
        for (place, peer) in self.peers.iter().enumerate() {
            for (index, group) in peer.groups.iter().enumerate() {
                let Some(tunnel) = &group.tunnel else { continue };
                for inner in FAMILIES {
                    let token = token(Target { peer: place, group: index, inner });
                    host.poller.modify(tunnel.descriptor(inner), token, Interest::Read)?;
                }
            }
        }
        Ok(())
    }
}

/// Token of a tunnel's descriptor.
fn token(of: Target) -> u64 {
    (of.peer as u64) << 32 | (of.group as u64) << 1 | u64::from(of.inner == Family::V6)
}

/// The inverse of [`token`].
fn target(token: u64) -> Target {
    let part = |part: u64| usize::try_from(part).unwrap_or(usize::MAX);
    let inner = if token & 1 == 0 { Family::V4 } else { Family::V6 };
    Target { peer: part(token >> 32), group: part((token & 0xffff_ffff) >> 1), inner }
}

impl Transport for Ipip {
    fn configure(
        &mut self,
        host: &mut Host,
        config: &Config,
        _: Option<&Identity>,
        _: Instant,
    ) -> io::Result<()> {
        self.follow(host, config)?;
        self.peers.set_policy(config.document.placement);
        self.mtu = self.path_mtu(config);
        Ok(())
    }

    fn relocate(&mut self, host: &mut Host, now: Instant) {
        self.next_tick = now;
        let config = host.config.clone();
        if let Err(error) = self.follow(host, &config) {
            tracing::warn!(%error, "cannot open the tunnels of paths");
        }
    }

    fn problems(&self) -> Vec<(IpAddr, String)> {
        let groups = self.peers.iter().flat_map(|peer| &peer.groups);
        groups.filter_map(|group| group.problem.clone()).collect()
    }

    fn silent_paths(&self, _: Instant) -> Vec<PathId> {
        Vec::new()
    }

    fn mtu(&self, _: &Config) -> u16 {
        self.mtu
    }

    fn handle_device(&mut self, host: &mut Host, now: Instant) -> io::Result<()> {
        for _ in 0..BUDGET {
            while let Some(space) = self.outgoing.space() {
                match host.tun.read(space) {
                    Ok(read) => {
                        let packet = space.get_mut(..read.len).unwrap_or_default();
                        tcp::clamp_mss(packet, self.mtu);
                        self.route(host, read.len, now);
                    }
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                        self.flush();
                        return Ok(());
                    }
                    Err(error) => return Err(error),
                }
            }
            self.flush();
        }
        Ok(())
    }

    fn handle_ready(&mut self, host: &mut Host, event: Ready, now: Instant) {
        self.deliver(host, target(event.token), now);
    }

    fn poll_timeout(&mut self, now: Instant) -> Instant {
        now + TICK
    }

    fn advance(&mut self, host: &mut Host, now: Instant) {
        if now < self.next_tick {
            return;
        }
        self.next_tick = now + TICK;
        self.peers.sweep(now, TICK);
        let found = self.path_mtu(&host.config);
        if found != self.mtu {
            self.mtu = found;
            let device = &host.config.document.tun.name;
            if let Err(error) = mtu::set(device, found) {
                tracing::warn!(device, mtu = found, %error, "MTU");
            }
        }
    }

    fn status(&self, _: Instant) -> Vec<PeerStatus> {
        let peers = self.peers.iter().map(|peer| {
            let flows = |group: &Group| self.peers.flows(peer.config.id, group.config.id);
            let status = |group: &Group| group.status(flows(group));
            let branch = peer.config.branch.clone();
            let groups: Vec<_> = peer.groups.iter().map(status).collect();
            PeerStatus { branch, up: groups.iter().any(|group| group.up), groups }
        });
        peers.collect()
    }

    fn counters(&self) -> Vec<PeerCounters> {
        let of = |group: &Group| NumberedCounters { id: group.config.id, counters: group.counters };
        let peers = self.peers.iter().map(|peer| PeerCounters {
            branch: peer.config.branch.clone(),
            groups: peer.groups.iter().map(of).collect(),
        });
        peers.collect()
    }

    fn unauthenticated(&self) -> UnauthenticatedCounters {
        UnauthenticatedCounters::default()
    }

    fn close(&mut self, _: &mut Host, _: Instant) {}
}

/// Sends packets of a batch; what the kernel refuses is dropped and counted.
fn send(
    (tunnel, inner): (&Tunnel, Family),
    batch: &mut Batch,
    numbers: Range<usize>,
    counters: &mut GroupCounters,
) {
    let Range { mut start, end } = numbers;
    while start < end {
        match tunnel.send(inner, batch, start..end) {
            Ok(taken) => {
                for packet in batch.iter().skip(start).take(taken) {
                    counters.sent.add(1, packet.len());
                }
                start += taken.max(1);
            }
            Err(error) => {
                *refused(&error, &mut counters.drops) += 1;
                start += 1;
            }
        }
    }
}

/// Counter of a packet that the kernel refused.
fn refused<'a>(error: &io::Error, drops: &'a mut PeerDrops) -> &'a mut u64 {
    match Errno::from_io_error(error) {
        Some(Errno::AGAIN | Errno::NOBUFS) => &mut drops.queue_full,
        Some(Errno::MSGSIZE) => &mut drops.too_long,
        _ => &mut drops.send_failed,
    }
}
