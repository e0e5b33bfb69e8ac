//! The state of a path group, and packets on their way into it.

use std::time::{Duration, Instant};

use bytes::{Buf, Bytes, BytesMut};
use hawser_multipath::{
    Backlog, Compressor, Decompressor, MAX_PATHS, Packed, Recovery as Lost, Refused, Resequencer,
    Scheduler, Sequencer, State, View,
};
use hawser_wire::{
    tcp,
    tunnel::{Form, HEADER_LEN},
};

use crate::{
    config::{self, Options, Recovery},
    counters::GroupCounters,
    path::{Link, Stored},
    placement::PathGroup,
    proxy::ProxyQueue,
    retry::Retry,
};

/// Packets that wait for others to be put in order, at most.
const HELD: usize = 8192;

/// Bytes of the longest packet that only acknowledges: headers of IPv6 and TCP.
const ACKNOWLEDGEMENT: usize = 40 + 60;

/// Bits a second above which nothing is stored: there the processor is what limits. Packets that are retransmittable leave
/// one by one; on an unlimited link one stream carried 2.9 Gbit/s so, and 4.9 Gbit/s without.
const FAST: f64 = 1e9;

/// A packet on its way to the peer, with room for the header before it.
pub(crate) struct Outgoing {
    pub(super) bytes: BytesMut,
    pub(super) flow: u16,
    pub(super) sequence: u32,
    pub(super) form: Form,
    /// Bytes that compression has made it shorter.
    pub(super) saved: usize,
    pub(super) unsummed: bool,
    /// Whether it is sent again if it is lost.
    pub(super) retransmittable: bool,
}

/// A packet from the peer.
#[derive(Debug)]
pub struct Incoming {
    /// The packet.
    pub packet: Bytes,
    /// Whether its TCP checksum was left out.
    pub unsummed: bool,
}

/// A member path.
#[derive(Default)]
pub(crate) struct Member {
    /// Its connection, once both ends know each other.
    pub(crate) link: Option<Link>,
    pub(crate) retry: Retry,
    pub(crate) connections: u64,
    /// Bytes given to it.
    pub(crate) given: u64,
}

/// A path group.
pub(crate) struct Group {
    pub(crate) config: config::Group,
    pub(crate) members: Vec<Member>,
    /// Whether packets that paths lose are sent again, and whether those are stored that come now.
    retransmits: bool,
    stores: bool,
    pub(crate) backlog: Backlog<Outgoing>,
    pub(super) scheduler: Scheduler,
    pub(super) sequencer: Sequencer,
    /// None where headers are not to be compressed.
    pub(super) compressor: Option<Compressor>,
    /// What paths have lost and is sent again.
    pub(super) lost: Lost<Stored>,
    /// How long it takes at most until what a path lost has come after all.
    pub(super) resend_time: Duration,
    /// When a path last answered.
    pub(super) heard: Option<Instant>,
    pub(super) decompressor: Decompressor,
    pub(crate) resequencer: Resequencer<Incoming>,
    pub(crate) counters: GroupCounters,
    /// What our numbers belong to, and the peer's.
    pub(crate) session: [u8; 16],
    peer_session: Option<[u8; 16]>,
    pub(super) views: Vec<View>,
    /// TCP connections that were terminated.
    pub(crate) proxy: ProxyQueue,
    /// Whether packets may have to be sent.
    pub(crate) active: bool,
}

impl Group {
    /// With numbers that belong to `session`, and a queue of so many bytes.
    pub(crate) fn new(
        config: config::Group,
        session: [u8; 16],
        queue_bytes: u64,
        options: Options,
    ) -> Self {
        let members = config.paths.iter().map(|_| Member::default()).collect();
        let retransmits = options.recovery == Recovery::Resend;
        Self {
            config,
            members,
            retransmits,
            stores: retransmits,
            backlog: Backlog::new(queue_bytes),
            scheduler: Scheduler::default(),
            sequencer: Sequencer::default(),
            compressor: options.header_compression.then(Compressor::default),
            lost: Lost::default(),
            resend_time: Duration::ZERO,
            heard: None,
            decompressor: Decompressor::default(),
            resequencer: Resequencer::new(if options.resequence { HELD } else { 0 }),
            counters: GroupCounters::default(),
            session,
            peer_session: None,
            views: Vec::with_capacity(MAX_PATHS),
            proxy: ProxyQueue::default(),
            active: false,
        }
    }

    /// Whether a path is there.
    pub(crate) fn is_up(&self) -> bool {
        self.members.iter().any(|member| member.link.is_some())
    }

    /// The connection of a member path.
    pub(crate) fn link_mut(&mut self, member: u8) -> Option<&mut Link> {
        self.members.get_mut(usize::from(member))?.link.as_mut()
    }

    /// The connections of its paths.
    pub(crate) fn links(&self) -> impl Iterator<Item = &Link> {
        self.members.iter().filter_map(|member| member.link.as_ref())
    }

    /// The connections of its paths.
    pub(crate) fn links_mut(&mut self) -> impl Iterator<Item = &mut Link> {
        self.members.iter_mut().filter_map(|member| member.link.as_mut())
    }

    /// Whether there may be something to send.
    pub(crate) fn has_work(&self) -> bool {
        !(self.backlog.is_empty() && self.lost.is_empty() && self.proxy.is_idle())
    }

    /// Whether a path is there that answers.
    fn answers(&self) -> bool {
        let silent = |view: &View| matches!(view.state, State::Probing | State::Down);
        self.is_up() && (self.views.is_empty() || !self.views.iter().all(silent))
    }

    /// Takes a packet, or counts why not; one that is `retransmittable` is sent again if it is lost.
    pub(crate) fn enqueue(
        &mut self,
        now: Instant,
        flow: u16,
        unsummed: bool,
        retransmittable: bool,
        bytes: BytesMut,
    ) {
        let len = u32::try_from(bytes.len() - HEADER_LEN).unwrap_or(u32::MAX);
        let retransmittable = retransmittable && self.stores;
        let Some(mut bytes) = self.supersede(flow, bytes) else { return };
        let is_up = self.is_up();
        let drops = &mut self.counters.drops;
        match self.backlog.admit(len) {
            Ok(()) => {
                let sequence = self.sequencer.number(flow);
                let Packed { form, spared: saved } =
                    self.compress(now, flow, sequence, retransmittable, &mut bytes);
                bytes.advance(saved);
                let len = len.saturating_sub(u32::try_from(saved).unwrap_or(len));
                let packet =
                    Outgoing { bytes, flow, sequence, form, saved, unsummed, retransmittable };
                self.backlog.push(now, len, packet);
                self.active = true;
            }
            Err(Refused::Full) if is_up => drops.queue_full += 1,
            Err(Refused::Full) => drops.peer_down += 1,
            Err(Refused::Delay) => drops.queue_delay += 1,
        }
    }

    /// Puts an acknowledgement of TCP in the place of the flow's last packet, if that waits still and the new one says
    /// all that it does (docs/design/segments.md); else gives it back.
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

    /// Compresses a packet. Where nothing is stored, the processor is what limits, and nothing is compressed.
    fn compress(
        &mut self,
        now: Instant,
        flow: u16,
        sequence: u32,
        retransmittable: bool,
        bytes: &mut BytesMut,
    ) -> Packed {
        let Some(compressor) = self.compressor.as_mut().filter(|_| self.stores) else {
            return Packed::PLAIN;
        };
        let packet = bytes.get_mut(HEADER_LEN..).unwrap_or_default();
        let made = compressor.pack(now, flow, sequence, retransmittable, packet);
        if made.form == Form::Compressed {
            self.counters.headers.compressed += 1;
            self.counters.headers.spared_bytes += made.spared as u64;
        }
        made
    }

    /// Sets what follows from the paths: how long packets may wait here, and at the other end, and whether they
    /// are stored.
    pub(super) fn adapt(&mut self, now: Instant, size: u64) {
        let rate: f64 = self.views.iter().map(|view| view.rate.bits_per_second()).sum();
        self.stores = self.retransmits && rate < FAST;
        let spread = self.scheduler.spread(&self.views, size);
        let up = self.views.iter().filter(|view| view.state == State::Up);
        let delay = up.map(|view| view.delay).max().unwrap_or_default();
        self.backlog.accept(spread, delay * 2, self.lost.is_recent(now));
        let spread = spread.min(Duration::from_millis(150));
        self.resequencer.set_spread(spread, self.resend_time);
    }

    /// Takes note of the peer's session; whether the peer has begun anew, and with it the numbers of its packets.
    pub(crate) fn begin_session(&mut self, session: [u8; 16]) -> bool {
        if self.peer_session == Some(session) {
            return false;
        }
        self.peer_session = Some(session);
        self.resequencer.reset();
        // It knows nothing of what was said before, nor does what it said hold.
        self.compressor = self.compressor.take().map(|_| Compressor::default());
        self.decompressor = Decompressor::default();
        self.proxy.numbers.forget_peers();
        true
    }
}

impl PathGroup for Group {
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
        let config = config::Group { id: 0, class: config::Class::II, paths: Vec::new() };
        let options = Options {
            congestion: config::Congestion::Delay,
            recovery: Recovery::Resend,
            resequence: true,
            header_compression: true,
            proxy: false,
            udp_offload: false,
        };
        Group::new(config, [0; 16], 1 << 20, options)
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
