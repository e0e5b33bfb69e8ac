//! State of a path group, and the queueing of packets.

use std::time::{Duration, Instant};

use bytes::{Buf, Bytes, BytesMut};
use hawser_multipath::{
    AdmitError, Backlog, Compliance, Compression, Compressor, Decompressor, MAX_PATHS, Reassembly,
    Resequencer, RetransmitQueue, Scheduler, Sequencer, State, View,
};
use hawser_wire::{
    segment::GsoPacket,
    tcp,
    tunnel::{Capabilities, Form, HEADER_LEN},
};

use super::{known_mtu::GroupMtu, members::Members};
use crate::{
    arena::Arena,
    config::{self, Class, Options, Recovery},
    counters::GroupCounters,
    path::{Link, Stored},
    placement::PathGroup,
    proxy::ProxyQueue,
};

/// Packets that the resequencer buffers.
const RESEQUENCER_LIMIT: usize = 8192;

/// Length of the longest packet that may be a pure ACK: headers of IPv6 and TCP, bytes.
const MAX_PURE_ACK: usize = 40 + 60;

/// Rate, bit/s, above which packets are not retransmittable: the CPU is the limit there, and
/// retransmittable packets leave one at a time. One stream over an unlimited link: 2.9 Gbit/s with,
/// 4.9 Gbit/s without.
const MAX_STORING_RATE: f64 = 1e9;

/// What is known of a packet that is queued.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Marks {
    pub(crate) flow: u16,
    pub(crate) class: Class,
    /// Whether it is sent again if it is lost.
    pub(crate) retransmittable: bool,
}

/// A packet to the peer, with room for the header before it.
pub(crate) struct Outgoing {
    pub(super) bytes: BytesMut,
    pub(super) flow: u16,
    pub(super) class: Class,
    pub(super) sequence: u32,
    pub(super) form: Form,
    /// Bytes saved by compression.
    pub(super) saved: usize,
    pub(super) checksum_omitted: bool,
    /// Whether it is sent again if it is lost.
    pub(super) retransmittable: bool,
}

/// A packet from the peer.
#[derive(Debug)]
pub struct Incoming {
    /// The packet.
    pub packet: Bytes,
    /// Whether its TCP checksum is omitted.
    pub checksum_omitted: bool,
}

/// A path group.
#[allow(clippy::struct_excessive_bools)] // independent facts about a group
pub(crate) struct Group {
    pub(crate) config: config::Group,
    pub(crate) members: Members,
    /// Whether the configuration enables retransmission, and whether new packets are
    /// retransmittable.
    retransmission_enabled: bool,
    stores_packets: bool,
    pub(crate) backlog: Backlog<Outgoing>,
    pub(super) scheduler: Scheduler,
    pub(super) sequencer: Sequencer,
    /// None if header compression is off.
    pub(super) compressor: Option<Compressor>,
    /// Lost packets to be retransmitted.
    pub(super) retransmit_queue: RetransmitQueue<Stored>,
    /// Longest time until a lost packet has been retransmitted.
    pub(super) max_retransmission_delay: Duration,
    /// Latest acknowledgement on any path.
    pub(super) last_ack: Option<Instant>,
    pub(super) decompressor: Decompressor,
    pub(crate) resequencer: Resequencer<Incoming>,
    pub(crate) counters: GroupCounters,
    /// Sessions to which our sequence numbers and the peer's belong.
    pub(crate) session: [u8; 16],
    peer_session: Option<[u8; 16]>,
    pub(super) views: Vec<View>,
    pub(crate) mtu: GroupMtu,
    /// Datagrams of which fragments have arrived.
    pub(super) reassembly: Reassembly,
    /// Connections of the TCP proxy.
    pub(crate) proxy: ProxyQueue,
    /// Optional parts that the peer takes.
    takes: Capabilities,
    /// Whether there may be something to send.
    pub(crate) active: bool,
    /// Whether one of its paths meets the thresholds of its class.
    complies: bool,
}

impl Group {
    /// A group whose sequence numbers belong to `session`, with a queue of `queue_bytes`.
    pub(crate) fn new(
        config: config::Group,
        session: [u8; 16],
        queue_bytes: u64,
        options: Options,
    ) -> Self {
        let members = Members::new(config.paths.len());
        let retransmission_enabled = options.recovery == Recovery::Resend;
        Self {
            config,
            members,
            retransmission_enabled,
            stores_packets: retransmission_enabled,
            backlog: Backlog::new(queue_bytes),
            scheduler: Scheduler::default(),
            sequencer: Sequencer::default(),
            compressor: options.header_compression.then(Compressor::default),
            retransmit_queue: RetransmitQueue::default(),
            max_retransmission_delay: Duration::ZERO,
            last_ack: None,
            decompressor: Decompressor::default(),
            resequencer: Resequencer::new(if options.resequence { RESEQUENCER_LIMIT } else { 0 }),
            counters: GroupCounters::default(),
            session,
            peer_session: None,
            views: Vec::with_capacity(MAX_PATHS),
            mtu: GroupMtu::default(),
            reassembly: Reassembly::default(),
            proxy: ProxyQueue::default(),
            takes: Capabilities::FIRST,
            active: false,
            complies: true,
        }
    }

    /// Whether any path has a connection.
    pub(crate) fn is_up(&self) -> bool {
        self.members.iter().any(|member| member.link.is_some())
    }

    /// Attempts to connect a member path since it was last connected.
    pub(crate) fn attempts(&self, member: usize) -> u32 {
        self.members.iter().nth(member).map_or(0, |member| member.retry.attempts())
    }

    /// Connection of a member path.
    pub(crate) fn link_mut(&mut self, member: u8) -> Option<&mut Link> {
        self.members.link_mut(member.into())
    }

    /// Connections of its paths.
    pub(crate) fn links(&self) -> impl Iterator<Item = &Link> {
        self.members.iter().filter_map(|member| member.link.as_ref())
    }

    /// Connections of its paths.
    pub(crate) fn links_mut(&mut self) -> impl Iterator<Item = &mut Link> {
        self.members.iter_mut().filter_map(|member| member.link.as_mut())
    }

    /// Judges each path by the thresholds of the class.
    pub(crate) fn judge_paths(&mut self, now: Instant) {
        let Some(sla) = self.config.sla else {
            if !self.complies {
                self.members
                    .iter_mut()
                    .for_each(|member| member.compliance = Compliance::default());
                self.complies = true;
            }
            return;
        };
        self.complies = false;
        for member in self.members.iter_mut() {
            let Some(link) = &member.link else {
                member.compliance = Compliance::default();
                continue;
            };
            let path = link.path.get();
            member.compliance.update(now, &sla, &path.quality(now));
            self.complies |= member.compliance.complies() && path.state(now) == State::Up;
        }
    }

    /// Whether anything is queued.
    pub(crate) fn has_work(&self) -> bool {
        !(self.backlog.is_empty() && self.retransmit_queue.is_empty() && self.proxy.is_idle())
    }

    /// Whether any path carries packets.
    fn is_answering(&self) -> bool {
        let silent = |view: &View| matches!(view.state, State::Probing | State::Down);
        self.is_up() && (self.views.is_empty() || !self.views.iter().all(silent))
    }

    /// Queues a packet, or counts why not.
    pub(crate) fn enqueue(
        &mut self,
        now: Instant,
        Marks { flow, class, retransmittable }: Marks,
        checksum_omitted: bool,
        bytes: BytesMut,
    ) {
        let len = u32::try_from(bytes.len() - HEADER_LEN).unwrap_or(u32::MAX);
        let retransmittable = retransmittable && self.stores_packets;
        let Some(mut bytes) = self.filter_ack(flow, bytes) else { return };
        let is_up = self.is_up();
        let drops = &mut self.counters.drops;
        match self.backlog.admit(len) {
            Ok(()) => {
                let sequence = self.sequencer.next_sequence(flow);
                let Compression { form, saved } =
                    self.compress(now, flow, sequence, retransmittable, &mut bytes);
                bytes.advance(saved);
                let len = len.saturating_sub(u32::try_from(saved).unwrap_or(len));
                let packet = Outgoing {
                    bytes,
                    flow,
                    class,
                    sequence,
                    form,
                    saved,
                    checksum_omitted,
                    retransmittable,
                };
                self.backlog.push(now, len, packet);
                self.active = true;
            }
            Err(AdmitError::Full) if is_up => drops.queue_full += 1,
            Err(AdmitError::Full) => drops.peer_down += 1,
            Err(AdmitError::Delay) => drops.queue_delay += 1,
        }
    }

    /// Queues the segments of a large packet.
    pub(crate) fn enqueue_segments(
        &mut self,
        now: Instant,
        marks: Marks,
        large: &GsoPacket<'_>,
        arena: &mut Arena,
    ) {
        for number in 0..large.count() {
            let [headers, payload] = large.parts(number);
            let mut bytes = arena.join(&[&[0; HEADER_LEN], headers, payload]);
            let segment = bytes.get_mut(HEADER_LEN..).unwrap_or_default();
            let mut checksum_omitted = large.complete_without_checksum(number, segment);
            if checksum_omitted && !self.takes.contains(Capabilities::CHECKSUM_OMITTED) {
                tcp::fill_checksum(segment);
                checksum_omitted = false;
            }
            self.enqueue(now, marks, checksum_omitted, bytes);
        }
    }

    /// ACK filtering (RFC 3449 section 5.2.1): replaces the flow's last packet by a newer pure ACK
    /// that covers it, if it is still queued (docs/design/segments.md). Otherwise returns the
    /// packet.
    fn filter_ack(&mut self, flow: u16, bytes: BytesMut) -> Option<BytesMut> {
        let newer = bytes.get(HEADER_LEN..).filter(|packet| packet.len() <= MAX_PURE_ACK);
        let number = newer.and_then(|_| self.sequencer.last_sequence(flow));
        let is_last = |packet: &Outgoing| packet.flow == flow && Some(packet.sequence) == number;
        let last = number.and_then(|_| self.backlog.recent(is_last));
        if let (Some(newer), Some(last)) = (newer, last)
            && last.form == Form::Plain
            && last.bytes.get(HEADER_LEN..).is_some_and(|older| tcp::supersedes(newer, older))
        {
            last.bytes = bytes;
            self.counters.acks_filtered += 1;
            return None;
        }
        Some(bytes)
    }

    /// Compresses a packet. Above [`MAX_STORING_RATE`] the CPU is the limit, and nothing is
    /// compressed.
    fn compress(
        &mut self,
        now: Instant,
        flow: u16,
        sequence: u32,
        retransmittable: bool,
        bytes: &mut BytesMut,
    ) -> Compression {
        let may = self.stores_packets && self.takes.contains(Capabilities::HEADER_COMPRESSION);
        let Some(compressor) = self.compressor.as_mut().filter(|_| may) else {
            return Compression::PLAIN;
        };
        let packet = bytes.get_mut(HEADER_LEN..).unwrap_or_default();
        let made = compressor.compress(now, flow, sequence, retransmittable, packet);
        if made.form == Form::Compressed {
            self.counters.headers.compressed += 1;
            self.counters.headers.saved_bytes += made.saved as u64;
        }
        made
    }

    /// Derives from the paths how long packets may queue, how long the resequencer waits, and
    /// whether packets are retransmittable.
    pub(super) fn update_limits(&mut self, now: Instant, size: u64) {
        let rate: f64 = self.views.iter().map(|view| view.rate.bits_per_second()).sum();
        let may = self.retransmission_enabled && self.takes.contains(Capabilities::RECOVERY);
        self.stores_packets = may && rate < MAX_STORING_RATE;
        let spread = self.scheduler.spread(&self.views, size);
        let up = self.views.iter().filter(|view| view.state == State::Up);
        let delay = up.map(|view| view.delay).max().unwrap_or_default();
        self.backlog.set_target(spread, delay * 2, self.retransmit_queue.had_recent_loss(now));
        let spread = spread.min(Duration::from_millis(150));
        self.resequencer.set_min_wait(spread, self.max_retransmission_delay);
    }

    /// Sets which optional parts the peer takes.
    pub(crate) fn set_capabilities(&mut self, takes: Capabilities) {
        self.takes = takes;
        self.mtu.takes_fragments = takes.contains(Capabilities::FRAGMENTS);
        self.stores_packets &= takes.contains(Capabilities::RECOVERY);
    }

    /// Whether the peer takes an optional part.
    pub(crate) fn takes(&self, part: Capabilities) -> bool {
        self.takes.contains(part)
    }

    /// Whether the peer takes inner packets of IPv6.
    pub(crate) fn takes_ipv6(&self) -> bool {
        self.takes(Capabilities::IPV6)
    }

    /// Records the peer's session; returns whether it is new, and with it the peer's sequence
    /// numbers.
    pub(crate) fn start_session(&mut self, session: [u8; 16]) -> bool {
        if self.peer_session == Some(session) {
            return false;
        }
        self.peer_session = Some(session);
        self.resequencer.reset();
        // Contexts of the previous session are unknown to the peer, and its own are void.
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

    fn set_config(&mut self, config: &config::Group) {
        self.config = config.clone();
    }

    fn is_usable(&self, _: Instant) -> bool {
        self.is_answering()
    }

    fn complies(&self) -> bool {
        self.complies
    }

    fn queued(&self) -> u64 {
        self.backlog.bytes()
    }

    fn sent(&self) -> u64 {
        self.counters.sent.bytes + self.counters.tcp_proxy.sent_bytes
    }
}

#[cfg(test)]
mod tests {
    use hawser_wire::tunnel::WIRE_VERSIONS;

    use super::*;

    fn group() -> Group {
        let config = config::Group::new(0, Class::II, Vec::new());
        let options = Options {
            congestion: config::Congestion::Delay,
            recovery: Recovery::Resend,
            resequence: true,
            header_compression: true,
            proxy: false,
            udp_offload: false,
            oversize: config::Oversize::default(),
            newest_version: WIRE_VERSIONS.1,
        };
        Group::new(config, [0; 16], 1 << 20, options)
    }

    /// A TCP/IPv4 packet behind room for its header.
    fn segment(acknowledged: u8, payload: usize) -> BytesMut {
        let mut packet = vec![0; 40 + payload];
        (packet[0], packet[9]) = (0x45, 6);
        (packet[31], packet[32], packet[33]) = (acknowledged, 0x50, 0x10);
        [&[0; HEADER_LEN], packet.as_slice()].concat().as_slice().into()
    }

    #[test]
    fn acks_are_filtered_only_at_the_tail_of_their_flow() {
        let (mut group, now) = (group(), Instant::now());
        let mut acks_filtered = |acknowledged, payload, leaves: bool| {
            let marks = Marks { flow: 7, class: Class::II, retransmittable: false };
            group.enqueue(now, marks, false, segment(acknowledged, payload));
            if leaves {
                let before = group.backlog.bytes() - 40 - payload as u64;
                let last = group.backlog.take(now, before, |_| true).unwrap();
                assert_eq!(last.bytes.len(), HEADER_LEN + 40 + payload);
            }
            group.counters.acks_filtered
        };
        assert_eq!((acks_filtered(1, 0, false), acks_filtered(2, 0, false)), (0, 1));
        assert_eq!(acks_filtered(2, 0, false), 1, "a duplicate");
        assert_eq!(
            acks_filtered(3, 9, true),
            1,
            "it has payload, and leaves before those that wait"
        );
        assert_eq!(acks_filtered(4, 0, false), 1, "those before have been overtaken");
        assert_eq!(acks_filtered(5, 0, false), 2);
        let waiting: Vec<_> = std::iter::from_fn(|| group.backlog.take(now, 0, |_| true)).collect();
        let acknowledged = waiting.iter().map(|packet| packet.bytes[HEADER_LEN + 31]);
        assert_eq!(acknowledged.collect::<Vec<_>>(), [2, 2, 5]);
    }
}
