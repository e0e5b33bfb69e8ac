//! The multipath agent with the `ipip` transport: one event loop between the TUN device and one tunnel
//! for each peer. Packets pass in batches.

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
use hawser_wire::ip;
use rustix::io::Errno;

use super::{
    command::{Apply, Command, Inbox},
    config::{Config, Path, Peer},
    counters::{GroupCounters, PeerDrops, StrangerCounters, TunCounters},
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

/// The path of a peer that `ipip` takes: the first of the first group.
pub(super) fn path(peer: &Peer) -> Option<Path> {
    peer.groups.first()?.paths.first().copied()
}

/// A tunnel to a peer.
struct End {
    peer: Peer,
    tunnel: Tunnel,
    counters: GroupCounters,
}

impl End {
    fn open(peer: &Peer) -> io::Result<Self> {
        let Some(Path { local: IpAddr::V4(local), remote: IpAddr::V4(remote) }) = path(peer) else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no IPv4 path"));
        };
        let tunnel = Tunnel::open(local, remote, BUFFER).map_err(|e| {
            io::Error::new(e.kind(), format!("tunnel to {} ({local} > {remote}): {e}", peer.branch))
        })?;
        Ok(Self { peer: peer.clone(), tunnel, counters: GroupCounters::default() })
    }
}

/// The agent: all that its event loop owns.
pub(super) struct Tunnels {
    config: Config,
    started: Instant,
    tun: Tun,
    poller: Poller,
    inbox: Inbox,
    ends: Vec<End>,
    table: Table,
    /// Packets from the device, and the end that each goes to.
    outgoing: Batch,
    targets: [usize; BATCH],
    incoming: Batch,
    counters: TunCounters,
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
            table: Table::default(),
            outgoing: Batch::new(SLOT),
            targets: [0; BATCH],
            incoming: Batch::new(SLOT),
            counters: TunCounters::default(),
            stopping: false,
            config: config.clone(),
        };
        this.adopt(config)?;
        Ok(this)
    }

    /// Largest packet that all paths take, as far as the kernel knows.
    pub(super) fn mtu(&self) -> Option<u16> {
        self.ends.iter().filter_map(|end| end.tunnel.mtu().ok()).min()
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
        for _ in 0..BUDGET {
            while let Some(space) = self.outgoing.space() {
                match self.tun.read(space) {
                    Ok(read) => self.sort(read.len),
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
    fn sort(&mut self, len: usize) {
        let Ok(packet) = ip::Packet::parse(self.outgoing.written(len)) else {
            self.counters.drops.malformed += 1;
            return;
        };
        self.counters.read.add(1, len);
        let Some(target) = self.table.peer(packet.destination()) else {
            self.counters.drops.unknown_destination += 1;
            return;
        };
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
                    tracing::debug!(peer = end.peer.branch, %error, "tunnel");
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
                if self.table.peer(packet.source()) != Some(index) {
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

    /// Takes on a configuration; tunnels whose peer is the same stay. On an error nothing has changed.
    fn adopt(&mut self, config: Config) -> io::Result<()> {
        let is_new = |peer: &&Peer| !self.ends.iter().any(|end| end.peer == **peer);
        let new: Vec<_> =
            config.peers.iter().filter(is_new).map(End::open).collect::<Result<_, _>>()?;
        let mut kept = std::mem::take(&mut self.ends);
        kept.retain(|end| config.peers.contains(&end.peer));
        for end in &new {
            self.poller.add(&end.tunnel, 0, Interest::Read)?;
        }
        kept.extend(new);
        kept.sort_by_key(|end| config.peers.iter().position(|peer| *peer == end.peer));
        for (index, end) in kept.iter().enumerate() {
            self.poller.modify(&end.tunnel, index as u64, Interest::Read)?;
        }
        self.ends = kept;
        self.table = Table::new(config.peers.iter());
        self.config = config;
        Ok(())
    }

    fn status(&self) -> Status {
        let peers = self.ends.iter().map(|end| PeerStatus {
            branch: end.peer.branch.clone(),
            up: true,
            groups: vec![GroupStatus {
                id: group_id(&end.peer),
                up: true,
                subflows: 1,
                reconnects: 0,
                remote: path(&end.peer).map(|path| path.remote.to_string()),
                encrypted: false,
                queued_bytes: 0,
                flows: 0,
            }],
        });
        let branch = self.config.document.branch.clone();
        Status::new(branch, self.started.elapsed(), self.tun.offload(), peers.collect())
    }

    fn counters(&self) -> Counters {
        let peers = self.ends.iter().map(|end| PeerCounters {
            branch: end.peer.branch.clone(),
            groups: vec![NumberedCounters { id: group_id(&end.peer), counters: end.counters }],
        });
        let strangers = StrangerCounters::default();
        Counters { tun: self.counters, strangers, peers: peers.collect(), switch: None }
    }
}

fn group_id(peer: &Peer) -> u8 {
    peer.groups.first().map_or(0, |group| group.id)
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
