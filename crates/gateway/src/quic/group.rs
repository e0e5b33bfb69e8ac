//! A path group: its packets, and what is known of its paths.

use std::time::{Duration, Instant};

use bytes::{Buf, Bytes, BytesMut};
use hawser_multipath::{
    Backlog, Compressor, Decompressor, Kept, MAX_PATHS, Packed, Recovery, Refused, Resequencer,
    Scheduler, Sequencer, State, Tag, View,
};
use hawser_wire::{
    tcp,
    tunnel::{Form, HEADER_LEN, Header},
};
use quinn_proto::ConnectionHandle;

use super::{lane::Queue, recover::Inner};
use crate::{
    config::{self, Class, TransportDocument},
    counters::GroupCounters,
    peer::Retry,
    placement::Carrier,
};

/// Packets that wait for others to be put in order, at most.
const HELD: usize = 8192;

/// Urgent packets of at most so many bytes go twice: speech, keys, acknowledgements.
const SMALL: usize = 300;

/// Bytes of the longest packet that only acknowledges: headers of IPv6 and TCP.
const ACKNOWLEDGEMENT: usize = 40 + 60;

/// A packet on its way to the peer, with room for the header before it.
pub(super) struct Outgoing {
    pub(super) bytes: BytesMut,
    pub(super) flow: u16,
    pub(super) sequence: u32,
    pub(super) form: Form,
    /// Bytes that compression has made it shorter.
    pub(super) spared: usize,
    pub(super) unsummed: bool,
    /// Whether it goes again if it is lost.
    pub(super) kept: bool,
}

/// A packet that goes on a path.
pub(super) struct Departure {
    pub(super) path: usize,
    pub(super) datagram: Bytes,
    /// What is kept of it.
    pub(super) kept: Option<Kept<Inner>>,
}

/// A packet from the peer.
pub(super) struct Incoming {
    pub(super) packet: Bytes,
    pub(super) unsummed: bool,
}

/// Bits a second above which nothing is kept: there the processor is what limits. Packets that are kept leave one by
/// one; on an unlimited link one stream carried 2.9 Gbit/s so, and 4.9 Gbit/s without.
const FAST: f64 = 1e9;

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
    recovers: bool,
    /// Whether what comes now is kept until it is acknowledged.
    keeps: bool,
    pub(super) backlog: Backlog<Outgoing>,
    pub(super) scheduler: Scheduler,
    pub(super) sequencer: Sequencer,
    /// What makes packets shorter, where that is wanted.
    pub(super) compressor: Option<Compressor>,
    /// What paths have lost.
    pub(super) recovery: Recovery<Inner>,
    /// How long it takes at most until what a path lost has come after all.
    pub(super) resend_time: Duration,
    /// When a path last answered.
    pub(super) heard: Option<Instant>,
    pub(super) decompressor: Decompressor,
    pub(super) resequencer: Resequencer<Incoming>,
    pub(super) counters: GroupCounters,
    /// What our numbers belong to, and the peer's.
    pub(super) session: [u8; 16],
    pub(super) peer_session: Option<[u8; 16]>,
    pub(super) views: Vec<View>,
    /// TCP connections that were terminated.
    pub(super) lane: Queue,
    /// Whether packets may have to be sent.
    pub(super) active: bool,
}

impl Group {
    /// With numbers that belong to `session`, and a queue of so many bytes; carried as the configuration says.
    pub(super) fn new(
        config: config::Group,
        session: [u8; 16],
        queue_bytes: u64,
        how: &TransportDocument,
    ) -> Self {
        let members = config.paths.iter().map(|_| Member::default()).collect();
        let recovers = how.recovery == config::Recovery::Resend;
        Self {
            config,
            members,
            recovers,
            keeps: recovers,
            backlog: Backlog::new(queue_bytes),
            scheduler: Scheduler::default(),
            sequencer: Sequencer::default(),
            compressor: how.header_compression.then(Compressor::default),
            recovery: Recovery::default(),
            resend_time: Duration::ZERO,
            heard: None,
            decompressor: Decompressor::default(),
            resequencer: Resequencer::new(if how.resequence { HELD } else { 0 }),
            counters: GroupCounters::default(),
            session,
            peer_session: None,
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
        !(self.backlog.is_empty() && self.recovery.is_empty() && self.lane.is_idle())
    }

    /// Whether a path is there that answers.
    fn answers(&self) -> bool {
        let silent = |view: &View| matches!(view.state, State::Probing | State::Down);
        self.is_up() && (self.views.is_empty() || !self.views.iter().all(silent))
    }

    /// Takes a packet, or counts why not; one that is `kept` goes again if it is lost.
    pub(super) fn enqueue(
        &mut self,
        now: Instant,
        flow: u16,
        unsummed: bool,
        kept: bool,
        bytes: BytesMut,
    ) {
        let len = u32::try_from(bytes.len() - HEADER_LEN).unwrap_or(u32::MAX);
        let kept = kept && self.keeps;
        let Some(mut bytes) = self.supersede(flow, bytes) else { return };
        let is_up = self.is_up();
        let drops = &mut self.counters.drops;
        match self.backlog.admit(len) {
            Ok(()) => {
                let sequence = self.sequencer.number(flow);
                let Packed { form, spared } = self.pack(now, flow, sequence, kept, &mut bytes);
                bytes.advance(spared);
                let len = len.saturating_sub(u32::try_from(spared).unwrap_or(len));
                let packet = Outgoing { bytes, flow, sequence, form, spared, unsummed, kept };
                self.backlog.push(now, len, packet);
                self.active = true;
            }
            Err(Refused::Full) if is_up => drops.queue_full += 1,
            Err(Refused::Full) => drops.peer_down += 1,
            Err(Refused::Delay) => drops.queue_delay += 1,
        }
    }

    /// Puts an acknowledgement of TCP in the place of the flow's last packet, if that waits still and the new one says
    /// all that it does (docs/adr/0162); else gives it back.
    fn supersede(&mut self, flow: u16, bytes: BytesMut) -> Option<BytesMut> {
        let newer = bytes.get(HEADER_LEN..).filter(|packet| packet.len() <= ACKNOWLEDGEMENT);
        let number = newer.and_then(|_| self.sequencer.last(flow));
        let is_last = |packet: &Outgoing| packet.flow == flow && Some(packet.sequence) == number;
        let last = number.and_then(|_| self.backlog.recent(is_last));
        if let (Some(newer), Some(last)) = (newer, last)
            && last.form == Form::Plain
            && last.bytes.get(HEADER_LEN..).is_some_and(|older| tcp::supersedes(newer, older))
        {
            last.bytes = bytes;
            self.counters.superseded += 1;
            return None;
        }
        Some(bytes)
    }

    /// Compresses a packet. Where nothing is kept, the processor is what limits, and nothing is compressed.
    fn pack(
        &mut self,
        now: Instant,
        flow: u16,
        sequence: u32,
        kept: bool,
        bytes: &mut BytesMut,
    ) -> Packed {
        let Some(compressor) = self.compressor.as_mut().filter(|_| self.keeps) else {
            return Packed::PLAIN;
        };
        let packet = bytes.get_mut(HEADER_LEN..).unwrap_or_default();
        let how = compressor.pack(now, flow, sequence, kept, packet);
        if how.form == Form::Compressed {
            self.counters.headers.compressed += 1;
            self.counters.headers.spared_bytes += how.spared as u64;
        }
        how
    }

    /// The next packet, complete, and the path it goes on; and where it is small and urgent, a copy on
    /// another path. What a path has lost goes first.
    pub(super) fn next(
        &mut self,
        now: Instant,
        weight: impl Fn(u64) -> u64,
    ) -> Option<[Option<Departure>; 2]> {
        if !self.recovery.is_empty() {
            return self.again(now, weight);
        }
        let head = u64::from(self.backlog.head()?);
        let kept = self.backlog.peek().is_some_and(|packet| packet.kept);
        let choice = self.scheduler.next(&self.views, self.backlog.bytes(), weight(head), kept)?;
        let largest = self.views.get(choice.path).map_or(0, |view| view.largest);
        let fits = |len: u32| weight(len.into()) <= largest;
        let packet = self.backlog.take(now, choice.skip, fits)?;
        let len = packet.bytes.len() - HEADER_LEN;
        let size = weight(len as u64);
        self.counters.sent.add(1, len + packet.spared);
        self.note(choice.path, size, len);
        self.lane.note_packet(size);
        let other = if self.config.class == Class::I && len <= SMALL {
            self.scheduler.copy(&self.views, size, choice.path)
        } else {
            None
        };
        let copy = other.map(|path| self.copy(now, path, size, &packet));
        let since = packet.kept.then_some(now);
        Some([Some(self.depart(now, choice.path, packet, since)), copy])
    }

    /// A packet that a path has lost, and the path on which it arrives first; and a copy of it on another.
    fn again(
        &mut self,
        now: Instant,
        weight: impl Fn(u64) -> u64,
    ) -> Option<[Option<Departure>; 2]> {
        let size = weight(self.recovery.head()?.into());
        let choice = self.scheduler.next(&self.views, 1, size, true)?;
        let Kept { flow, sequence, len, since, item } = self.recovery.take()?;
        self.counters.recovery.resent += 1;
        self.note(choice.path, size, len as usize);
        self.lane.note_packet(size);
        let copied = self.recovery.is_short();
        let other = copied.then(|| self.scheduler.copy(&self.views, size, choice.path)).flatten();
        let bytes = BytesMut::from(item.datagram.as_ref());
        let Inner { form, unsummed, .. } = item;
        let packet = Outgoing { bytes, flow, sequence, form, spared: 0, unsummed, kept: true };
        self.counters.recovery.copied += u64::from(other.is_some());
        let copy = other.map(|path| self.copy(now, path, size, &packet));
        Some([Some(self.depart(now, choice.path, packet, Some(since))), copy])
    }

    /// A copy of a packet, which goes on another path.
    fn copy(&mut self, now: Instant, path: usize, size: u64, packet: &Outgoing) -> Departure {
        self.note(path, size, packet.bytes.len() - HEADER_LEN);
        let bytes = BytesMut::from(packet.bytes.as_ref());
        self.depart(now, path, Outgoing { bytes, ..*packet }, None)
    }

    /// Completes a packet that goes on a path; it is kept where it is known since when.
    fn depart(
        &mut self,
        now: Instant,
        path: usize,
        packet: Outgoing,
        since: Option<Instant>,
    ) -> Departure {
        let Outgoing { mut bytes, flow, sequence, form, unsummed, kept, .. } = packet;
        let Tag { behind, paths, .. } = self.sequencer.tag(now, flow, sequence, path, kept);
        let header = Header { flow, form, unsummed, kept, sequence, behind, paths };
        if let Some(place) = bytes.get_mut(..HEADER_LEN) {
            place.copy_from_slice(&header.emit());
        }
        let datagram = bytes.freeze();
        let kept = since.map(|since| {
            let len = u32::try_from(datagram.len() - HEADER_LEN).unwrap_or(u32::MAX);
            let item = Inner { datagram: datagram.clone(), form, unsummed };
            Kept { flow, sequence, len, since, item }
        });
        Departure { path, datagram, kept }
    }

    /// The peer has begun anew: it knows nothing of what was said before, nor does what it said hold.
    pub(super) fn forget_contexts(&mut self) {
        self.compressor = self.compressor.take().map(|_| Compressor::default());
        self.decompressor = Decompressor::default();
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

    /// Sets what follows from the paths: how long packets may wait here, and at the other end, and whether they
    /// are kept.
    pub(super) fn adapt(&mut self, now: Instant, size: u64) {
        let rate: f64 = self.views.iter().map(|view| view.rate.bits_per_second()).sum();
        self.keeps = self.recovers && rate < FAST;
        let spread = self.scheduler.spread(&self.views, size);
        let up = self.views.iter().filter(|view| view.state == State::Up);
        let delay = up.map(|view| view.delay).max().unwrap_or_default();
        self.backlog.accept(spread, delay * 2, self.recovery.is_recent(now));
        let spread = spread.min(Duration::from_millis(150));
        self.resequencer.set_spread(spread, self.resend_time);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn group() -> Group {
        let how = serde_json::from_value(serde_json::json!({"kind": "quic"})).unwrap();
        let config = config::Group { id: 0, class: Class::II, paths: Vec::new() };
        Group::new(config, [0; 16], 1 << 20, &how)
    }

    /// A packet of TCP over IPv4, behind room for its header.
    fn segment(acknowledged: u8, payload: usize) -> BytesMut {
        let mut packet = vec![0; 40 + payload];
        (packet[0], packet[9]) = (0x45, 6);
        (packet[31], packet[32], packet[33]) = (acknowledged, 0x50, 0x10);
        [&[0; HEADER_LEN], packet.as_slice()].concat().as_slice().into()
    }

    #[test]
    fn an_acknowledgement_takes_the_place_of_the_last_packet_only() {
        let (mut group, now) = (group(), Instant::now());
        let mut superseded = |acknowledged, payload, leaves: bool| {
            group.enqueue(now, 7, false, false, segment(acknowledged, payload));
            if leaves {
                let before = group.backlog.bytes() - 40 - payload as u64;
                let last = group.backlog.take(now, before, |_| true).unwrap();
                assert_eq!(last.bytes.len(), HEADER_LEN + 40 + payload);
            }
            group.counters.superseded
        };
        assert_eq!((superseded(1, 0, false), superseded(2, 0, false)), (0, 1));
        assert_eq!(superseded(2, 0, false), 1, "a duplicate");
        assert_eq!(superseded(3, 9, true), 1, "it has payload, and leaves before those that wait");
        assert_eq!(superseded(4, 0, false), 1, "those before have been overtaken");
        assert_eq!(superseded(5, 0, false), 2);
        let waiting: Vec<_> = std::iter::from_fn(|| group.backlog.take(now, 0, |_| true)).collect();
        let acknowledged = waiting.iter().map(|packet| packet.bytes[HEADER_LEN + 31]);
        assert_eq!(acknowledged.collect::<Vec<_>>(), [2, 2, 5]);
    }
}
