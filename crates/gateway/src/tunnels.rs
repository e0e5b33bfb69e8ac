//! The multipath agent with the `ipip` transport: one event loop between the TUN device and one tunnel
//! for each path group of each peer, over the group's first path. Packets pass in batches.

use std::{
    io,
    net::IpAddr,
    ops::Range,
    time::{Duration, Instant},
};

use hawser_netdev::{
    ipip::{BATCH, Batch, Tunnel, decapsulate},
    poll::{Interest, Poller},
    tun::Tun,
};
use hawser_wire::{flow, ip, tcp};
use rustix::io::Errno;

use super::{
    command::{Apply, Command, Inbox},
    config::{self, Class, Config, Path},
    counters::{GroupCounters, PeerDrops, StrangerCounters, TunCounters},
    peer::Peer,
    placement::Places,
    setup,
    status::{Counters, GroupStatus, NumberedCounters, PeerCounters, PeerStatus, Status},
    table::Table,
};

/// Room for a packet: an outer header with all options before the largest inner packet.
const SLOT: usize = 60 + u16::MAX as usize;

/// Batches taken from one descriptor before others get their turn.
const BUDGET: usize = 4;

/// Bytes that wait in the kernel for a tunnel, each way.
const BUFFER: usize = 4 << 20;

/// How long the loop waits at most.
const TICK: Duration = Duration::from_secs(1);

const TUN: u64 = u64::MAX;
const INBOX: u64 = u64::MAX - 1;

/// The path that a group's tunnel takes: the first.
fn path(group: &config::Group) -> Option<Path> {
    group.paths.first().copied()
}

/// A tunnel to a peer.
struct End {
    branch: String,
    /// Place of the peer in the configuration.
    peer: usize,
    group: config::Group,
    tunnel: Tunnel,
    counters: GroupCounters,
}

impl End {
    fn open(branch: &str, group: &config::Group) -> io::Result<Self> {
        let Some(Path { local: IpAddr::V4(local), remote: IpAddr::V4(remote) }) = path(group)
        else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no IPv4 path"));
        };
        let tunnel = Tunnel::open(local, remote, BUFFER).map_err(|e| {
            io::Error::new(e.kind(), format!("tunnel to {branch} ({local} > {remote}): {e}"))
        })?;
        let (branch, group) = (branch.to_owned(), group.clone());
        Ok(Self { branch, peer: 0, group, tunnel, counters: GroupCounters::default() })
    }

    fn is(&self, branch: &str, group: &config::Group) -> bool {
        self.branch == branch && self.group == *group
    }
}

/// The agent: all that its event loop owns.
pub(super) struct Tunnels {
    config: Config,
    started: Instant,
    tun: Tun,
    poller: Poller,
    inbox: Inbox,
    /// Tunnels of all peers, those of one next to each other.
    ends: Vec<End>,
    /// Peers as placement sees them, each with the place of its first tunnel.
    peers: Vec<(Peer, usize)>,
    places: Places,
    table: Table,
    /// Packets from the device, and the end that each goes to.
    outgoing: Batch,
    targets: [usize; BATCH],
    incoming: Batch,
    counters: TunCounters,
    /// See [`Tunnels::mtu`].
    mtu: u16,
    stopping: bool,
}

impl Tunnels {
    /// Takes over a TUN device without offload; opens the tunnels.
    pub(super) fn new(config: Config, tun: Tun, inbox: Inbox) -> io::Result<Self> {
        let poller = Poller::new()?;
        poller.add(&tun, TUN, Interest::Read)?;
        poller.add(&inbox.waker, INBOX, Interest::Read)?;
        let mut this = Self {
            started: Instant::now(),
            tun,
            poller,
            inbox,
            ends: Vec::new(),
            peers: Vec::new(),
            places: Places::new(config.document.placement, Instant::now()),
            table: Table::default(),
            outgoing: Batch::new(SLOT),
            targets: [0; BATCH],
            incoming: Batch::new(SLOT),
            counters: TunCounters::default(),
            mtu: 0,
            stopping: false,
            config: config.clone(),
        };
        this.adopt(config)?;
        Ok(this)
    }

    /// The largest packet that the device and, as far as the kernel knows, all paths take.
    pub(super) fn mtu(&self) -> u16 {
        self.mtu
    }

    /// Carries packets until told to stop.
    pub(super) fn run(mut self) -> io::Result<()> {
        let mut ready = Vec::new();
        while !self.stopping {
            self.poller.wait(TICK, &mut ready)?;
            for event in &ready {
                match event.token {
                    TUN => self.forward()?,
                    INBOX => self.obey(),
                    end => self.deliver(usize::try_from(end).unwrap_or(usize::MAX)),
                }
            }
        }
        Ok(())
    }

    /// Reads packets from the device and gives them to the tunnels they go to.
    fn forward(&mut self) -> io::Result<()> {
        let now = Instant::now();
        for _ in 0..BUDGET {
            while let Some(space) = self.outgoing.space() {
                match self.tun.read(space) {
                    Ok(read) => {
                        let packet = space.get_mut(..read.len).unwrap_or_default();
                        tcp::lower_segment_size(packet, self.mtu);
                        self.sort(read.len, now);
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

    /// Finds out where the packet goes that was just read into the batch.
    fn sort(&mut self, len: usize, now: Instant) {
        let Ok(packet) = ip::Packet::parse(self.outgoing.written(len)) else {
            self.counters.drops.malformed += 1;
            return;
        };
        self.counters.read.add(1, len);
        let peer = self.table.peer(packet.destination()).and_then(|peer| self.peers.get(peer));
        let Some((peer, first)) = peer else {
            self.counters.drops.unknown_destination += 1;
            return;
        };
        let target = first + self.places.place(peer, flow::hash(&packet), Class::II, now);
        if let Some(place) = self.targets.get_mut(self.outgoing.len()) {
            *place = target;
            self.outgoing.push(len);
        }
    }

    /// Sends the batch: neighbours with the same target together.
    fn flush(&mut self) {
        let mut start = 0;
        let targets = self.targets.get(..self.outgoing.len()).unwrap_or_default();
        for run in targets.chunk_by(|a, b| a == b) {
            let end = start + run.len();
            if let Some(place) = run.first().and_then(|target| self.ends.get_mut(*target)) {
                send(&place.tunnel, &mut self.outgoing, start..end, &mut place.counters);
            }
            start = end;
        }
        self.outgoing.clear();
    }

    /// Receives from a tunnel; what is for this branch goes to the device.
    fn deliver(&mut self, index: usize) {
        for _ in 0..BUDGET {
            let Some(end) = self.ends.get_mut(index) else { return };
            match end.tunnel.receive(&mut self.incoming) {
                Ok(()) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    // Such as an ICMP error of the path: it has been told, and the tunnel goes on.
                    tracing::debug!(peer = end.branch, %error, "tunnel");
                    return;
                }
            }
            for outer in self.incoming.iter() {
                let inner = decapsulate(outer).and_then(|inner| ip::Packet::parse(inner).ok());
                let Some(packet) = inner else {
                    end.counters.drops.malformed += 1;
                    continue;
                };
                let bytes = packet.bytes();
                end.counters.received.add(1, bytes.len());
                if self.table.peer(packet.source()) != Some(end.peer) {
                    end.counters.drops.foreign_source += 1;
                } else if self.tun.write(bytes, None).is_ok() {
                    self.counters.written.add(1, bytes.len());
                } else {
                    self.counters.drops.write_failed += 1;
                }
            }
        }
    }

    fn obey(&mut self) {
        self.inbox.waker.clear();
        while let Some(command) = self.inbox.next() {
            // Who asked may have gone away meanwhile.
            match command {
                Command::Status(reply) => drop(reply.send(self.status())),
                Command::Counters(reply) => drop(reply.send(self.counters())),
                Command::Apply(apply, reply) => {
                    let Apply { config, .. } = *apply;
                    drop(reply.send(self.adopt(config).map_err(|error| error.to_string())));
                }
                Command::Stop => self.stopping = true,
            }
        }
    }

    /// Takes on a configuration; tunnels that are in it too stay. On an error nothing has changed.
    fn adopt(&mut self, config: Config) -> io::Result<()> {
        let wanted = |(place, peer): (usize, &'_ config::Peer)| {
            let of = |group: &config::Group| (place, peer.branch.clone(), group.clone());
            peer.groups.iter().map(of).collect::<Vec<_>>()
        };
        let wanted: Vec<_> = config.peers.iter().enumerate().flat_map(wanted).collect();
        let known =
            |branch: &str, group: &config::Group| self.ends.iter().any(|end| end.is(branch, group));
        let fresh = wanted.iter().filter(|(_, branch, group)| !known(branch, group));
        let fresh: Vec<_> =
            fresh.map(|(_, branch, group)| End::open(branch, group)).collect::<Result<_, _>>()?;
        for end in &fresh {
            self.poller.add(&end.tunnel, 0, Interest::Read)?;
        }
        let mut pool = std::mem::take(&mut self.ends);
        pool.extend(fresh);
        for (place, branch, group) in wanted {
            if let Some(at) = pool.iter().position(|end| end.is(&branch, &group)) {
                self.ends.push(End { peer: place, ..pool.swap_remove(at) });
            }
        }
        for (index, end) in self.ends.iter().enumerate() {
            self.poller.modify(&end.tunnel, index as u64, Interest::Read)?;
        }
        let path = self.ends.iter().filter_map(|end| end.tunnel.mtu().ok()).min();
        self.mtu = path.unwrap_or(u16::MAX).min(setup::mtu(&config));
        self.peers = self.placed(&config);
        self.places.set_policy(config.document.placement);
        self.table = Table::new(config.peers.iter());
        self.config = config;
        Ok(())
    }

    /// Peers for placement: a tunnel needs no connection, so that all their groups carry.
    fn placed(&self, config: &Config) -> Vec<(Peer, usize)> {
        let placed = config.peers.iter().enumerate().map(|(place, peer)| {
            let mut peer = Peer::new(peer.clone(), config.document.id, 0);
            peer.groups.iter_mut().for_each(|group| group.up = true);
            (peer, self.ends.iter().position(|end| end.peer == place).unwrap_or(usize::MAX))
        });
        placed.collect()
    }

    /// The tunnels of a peer, by its place in the configuration.
    fn of(&self, place: usize) -> impl Iterator<Item = &End> {
        self.ends.iter().filter(move |end| end.peer == place)
    }

    fn status(&self) -> Status {
        let peers = self.config.peers.iter().enumerate().map(|(place, peer)| PeerStatus {
            branch: peer.branch.clone(),
            up: true,
            groups: self.of(place).map(|end| self.group_status(peer.id, &end.group)).collect(),
        });
        let branch = self.config.document.branch.clone();
        Status::new(branch, self.started.elapsed(), self.tun.offload(), peers.collect())
    }

    fn group_status(&self, peer: u16, group: &config::Group) -> GroupStatus {
        GroupStatus {
            id: group.id,
            up: true,
            subflows: 1,
            reconnects: 0,
            remote: path(group).map(|path| path.remote.to_string()),
            encrypted: false,
            queued_bytes: 0,
            paths: Vec::new(),
            flows: self.places.flows(peer, group.id),
            lane: false,
            lane_flows: 0,
        }
    }

    fn counters(&self) -> Counters {
        let of = |end: &End| NumberedCounters { id: end.group.id, counters: end.counters };
        let peers = self.config.peers.iter().enumerate().map(|(place, peer)| PeerCounters {
            branch: peer.branch.clone(),
            groups: self.of(place).map(of).collect(),
        });
        let strangers = StrangerCounters::default();
        Counters { tun: self.counters, strangers, peers: peers.collect(), switch: None }
    }
}

/// Sends packets of a batch; what the kernel does not take is dropped and counted.
fn send(tunnel: &Tunnel, batch: &mut Batch, numbers: Range<usize>, counters: &mut GroupCounters) {
    let Range { mut start, end } = numbers;
    while start < end {
        match tunnel.send(batch, start..end) {
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

/// The counter of a packet that the kernel did not take.
fn refused<'a>(error: &io::Error, drops: &'a mut PeerDrops) -> &'a mut u64 {
    match Errno::from_io_error(error) {
        Some(Errno::AGAIN | Errno::NOBUFS) => &mut drops.queue_full,
        Some(Errno::MSGSIZE) => &mut drops.too_long,
        _ => &mut drops.send_failed,
    }
}
