//! A path group: its packets, and what is known of its paths.

use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use hawser_multipath::{
    Backlog, MAX_PATHS, Refused, Resequencer, Scheduler, Sequencer, State, Tag, View,
};
use hawser_wire::tunnel::{HEADER_LEN, Header};
use quinn_proto::ConnectionHandle;

use super::lane::Queue;
use crate::gateway::{
    config::{self, Class},
    counters::GroupCounters,
    peer::Retry,
    placement::Carrier,
};

/// Packets that wait for others to be put in order, at most.
const HELD: usize = 8192;

/// Urgent packets of at most so many bytes go twice: speech, keys, acknowledgements.
const SMALL: usize = 300;

/// A packet on its way to the peer, with room for the header before it.
pub(super) struct Outgoing {
    pub(super) bytes: BytesMut,
    pub(super) flow: u16,
    pub(super) sequence: u32,
    pub(super) cut: bool,
}

/// A packet from the peer.
pub(super) struct Incoming {
    pub(super) packet: Bytes,
    pub(super) cut: bool,
}

/// A member path.
#[derive(Default)]
pub(super) struct Member {
    /// Its connection: the socket's number, and the connection's there.
    pub(super) link: Option<(usize, ConnectionHandle)>,
    pub(super) retry: Retry,
    pub(super) connections: u64,
    /// Bytes given to it.
    pub(super) given: u64,
}

/// A path group.
pub(super) struct Group {
    pub(super) config: config::Group,
    pub(super) members: Vec<Member>,
    pub(super) backlog: Backlog<Outgoing>,
    pub(super) scheduler: Scheduler,
    pub(super) sequencer: Sequencer,
    pub(super) resequencer: Resequencer<Incoming>,
    pub(super) counters: GroupCounters,
    /// What the peer's numbers belong to.
    pub(super) session: Option<[u8; 16]>,
    pub(super) views: Vec<View>,
    /// TCP connections that were terminated.
    pub(super) lane: Queue,
    /// Whether packets may have to be sent.
    pub(super) active: bool,
}

impl Group {
    /// With a queue of so many bytes; without `resequence`, packets pass as they come.
    pub(super) fn new(config: config::Group, queue_bytes: u64, resequence: bool) -> Self {
        let members = config.paths.iter().map(|_| Member::default()).collect();
        Self {
            config,
            members,
            backlog: Backlog::new(queue_bytes),
            scheduler: Scheduler::default(),
            sequencer: Sequencer::default(),
            resequencer: Resequencer::new(if resequence { HELD } else { 0 }),
            counters: GroupCounters::default(),
            session: None,
            views: Vec::with_capacity(MAX_PATHS),
            lane: Queue::default(),
            active: false,
        }
    }

    /// Whether a path is there.
    pub(super) fn is_up(&self) -> bool {
        self.members.iter().any(|member| member.link.is_some())
    }

    /// The connections of its paths.
    pub(super) fn links(&self) -> Vec<(usize, ConnectionHandle)> {
        self.members.iter().filter_map(|member| member.link).collect()
    }

    /// Whether there may be something to send.
    pub(super) fn has_work(&self) -> bool {
        !(self.backlog.is_empty() && self.lane.is_idle())
    }

    /// Whether a path is there that answers.
    fn answers(&self) -> bool {
        let silent = |view: &View| matches!(view.state, State::Probing | State::Down);
        self.is_up() && (self.views.is_empty() || !self.views.iter().all(silent))
    }

    /// Takes a packet, or counts why not.
    pub(super) fn enqueue(&mut self, now: Instant, flow: u16, cut: bool, bytes: BytesMut) {
        let len = u32::try_from(bytes.len() - HEADER_LEN).unwrap_or(u32::MAX);
        let is_up = self.is_up();
        let drops = &mut self.counters.drops;
        match self.backlog.admit(len) {
            Ok(()) => {
                let sequence = self.sequencer.number(flow);
                self.backlog.push(now, len, Outgoing { bytes, flow, sequence, cut });
                self.active = true;
            }
            Err(Refused::Full) if is_up => drops.queue_full += 1,
            Err(Refused::Full) => drops.peer_down += 1,
            Err(Refused::Delay) => drops.queue_delay += 1,
        }
    }

    /// The next packet, complete, and the path it goes on; and where it is small and urgent, a copy on
    /// another path.
    pub(super) fn next(
        &mut self,
        now: Instant,
        weight: impl Fn(u64) -> u64,
    ) -> Option<[Option<(usize, Bytes)>; 2]> {
        let head = u64::from(self.backlog.head()?);
        let choice = self.scheduler.next(&self.views, self.backlog.bytes(), weight(head))?;
        let mut packet = self.backlog.take(now, choice.skip)?;
        let len = packet.bytes.len() - HEADER_LEN;
        let size = weight(len as u64);
        self.counters.sent.add(1, len);
        self.note(choice.path, size, len);
        self.lane.note_packet(size);
        let other = if self.config.class == Class::I && len <= SMALL {
            self.scheduler.copy(&self.views, size, choice.path)
        } else {
            None
        };
        let copy = other.map(|path| {
            self.note(path, size, len);
            let bytes = BytesMut::from(packet.bytes.as_ref());
            let mut copy = Outgoing { bytes, ..packet };
            self.stamp(now, path, &mut copy);
            (path, copy.bytes.freeze())
        });
        self.stamp(now, choice.path, &mut packet);
        Some([Some((choice.path, packet.bytes.freeze())), copy])
    }

    /// Writes the header of a packet that goes on a path.
    fn stamp(&mut self, now: Instant, path: usize, packet: &mut Outgoing) {
        let Outgoing { bytes, flow, sequence, cut } = packet;
        let Tag { flow, sequence, behind, paths } = self.sequencer.tag(now, *flow, *sequence, path);
        let header = Header { flow, cut: *cut, sequence, behind, paths };
        if let Some(place) = bytes.get_mut(..HEADER_LEN) {
            place.copy_from_slice(&header.emit());
        }
    }

    /// Counts a packet that goes on a path.
    pub(super) fn note(&mut self, path: usize, size: u64, len: usize) {
        if let Some(view) = self.views.get_mut(path) {
            view.sent(size);
        }
        if let Some(member) = self.members.get_mut(path) {
            member.given += len as u64;
        }
    }

    /// Sets what follows from the paths: how long packets may wait here, and at the other end.
    pub(super) fn adapt(&mut self, size: u64) {
        let spread = self.scheduler.spread(&self.views, size);
        let up = self.views.iter().filter(|view| view.state == State::Up);
        let delay = up.map(|view| view.delay).max().unwrap_or_default();
        self.backlog.accept(spread, delay * 2);
        self.resequencer.set_spread(spread.min(Duration::from_millis(150)));
    }
}

impl Carrier for Group {
    fn config(&self) -> &config::Group {
        &self.config
    }

    fn carries(&self, _: Instant) -> bool {
        self.answers()
    }

    fn queued(&self) -> u64 {
        self.backlog.bytes()
    }
}
