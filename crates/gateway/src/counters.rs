//! What a gateway counts. All of it belongs to the event loop, which hands out copies.

use schemars::JsonSchema;
use serde::Serialize;

/// Packets and bytes in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Traffic {
    /// Units that were handed on whole: IP packets, of up to 64 KiB where segmentation is left to the
    /// kernel.
    pub(super) records: u64,
    /// IP packets as they are on a wire, after segmentation.
    pub(super) packets: u64,
    /// Bytes of the records, inner IP headers included, framing and encryption not.
    pub(super) bytes: u64,
}

impl Traffic {
    /// Counts one record of `packets` packets.
    pub(super) fn add(&mut self, packets: usize, bytes: usize) {
        self.records += 1;
        self.packets += packets as u64;
        self.bytes += bytes as u64;
    }
}

/// Records that came from the TUN device and went nowhere, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct TunDrops {
    /// Not an IP packet whose header agrees with its length.
    pub(super) malformed: u64,
    /// To an address behind no peer.
    pub(super) unknown_destination: u64,
    /// The kernel did not take a packet from a peer.
    pub(super) write_failed: u64,
}

/// Records that were dropped on the way to a peer or from it, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct PeerDrops {
    /// To the peer: the queue was full while the connection was slow.
    pub(super) queue_full: u64,
    /// To the peer: the queue was full while there was no connection.
    pub(super) peer_down: u64,
    /// To the peer: too long in the queue.
    pub(super) queue_delay: u64,
    /// To the peer: larger than the path takes.
    pub(super) too_long: u64,
    /// To the peer: the kernel refused it.
    pub(super) send_failed: u64,
    /// From the peer: not an IP packet, or not one that may be carried.
    pub(super) malformed: u64,
    /// From the peer: its source is not behind the peer.
    pub(super) foreign_source: u64,
    /// From the peer: compressed with a context that is not known here.
    pub(super) unknown_context: u64,
}

/// Connections of a group that ended, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Ends {
    /// The kernel reported an error, such as a reset or an unreachable peer.
    pub(super) io: u64,
    /// What came was not a stream of records.
    pub(super) malformed: u64,
    /// Handshake or encryption failed.
    pub(super) tls: u64,
    /// Closed by the peer.
    pub(super) closed: u64,
    /// Nothing was heard for too long.
    pub(super) silent: u64,
    /// The other end was not who it should be.
    pub(super) stranger: u64,
}

impl Ends {
    /// Counts one.
    pub(super) fn count(&mut self, cause: super::link::Cause) {
        use super::link::Cause;
        *match cause {
            Cause::Io => &mut self.io,
            Cause::Malformed => &mut self.malformed,
            Cause::Tls => &mut self.tls,
            Cause::Closed => &mut self.closed,
            Cause::Silent => &mut self.silent,
            Cause::Stranger => &mut self.stranger,
        } += 1;
    }
}

/// Counters of one path group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct GroupCounters {
    /// To the peer.
    pub(super) sent: Traffic,
    /// From the peer.
    pub(super) received: Traffic,
    /// Not carried.
    pub(super) drops: PeerDrops,
    /// Connections that ended.
    pub(super) ends: Ends,
    /// What came from the peer, in which order; the `quic` transport counts it.
    pub(super) order: Order,
    /// Packets to the peer that the `quic` transport kept for the case that they are lost.
    pub(super) recovery: RecoveryCounters,
    /// Packets to the peer whose headers the `quic` transport compressed.
    pub(super) headers: HeaderCounters,
    /// Acknowledgements of TCP to the peer that a later one took the place of while they waited (`quic`).
    pub(super) superseded: u64,
    /// TCP connections that the `quic` transport terminated.
    pub(super) lane: LaneCounters,
}

/// Packets that paths lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct RecoveryCounters {
    /// Sent again; each time counts.
    pub(super) resent: u64,
    /// Copies of these, at the same time on another path.
    pub(super) copied: u64,
    /// Not sent again: it was too late, or there was no room to keep them.
    pub(super) given_up: u64,
}

/// Header compression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct HeaderCounters {
    /// Packets that were compressed.
    pub(super) compressed: u64,
    /// Bytes that these have become shorter.
    pub(super) spared_bytes: u64,
}

/// TCP connections that were terminated and carried as streams (the TCP lane).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct LaneCounters {
    /// Begun, from this branch and from the peer's.
    pub(super) opened: u64,
    /// Not begun: there were too many, or it was not allowed.
    pub(super) refused: u64,
    /// Ended by both ends.
    pub(super) ended: u64,
    /// Reset by an end, not made, or given up with the peer.
    pub(super) reset: u64,
    /// Bytes sent to the peer, of the connections' own.
    pub(super) sent_bytes: u64,
    /// Bytes from the peer that connections here took.
    pub(super) received_bytes: u64,
    /// Messages given to another path because theirs had died.
    pub(super) resent: u64,
}

#[allow(clippy::struct_field_names)] // `in_order` is what it is called
/// Packets from the peer, by the order in which they came on all paths together. Out of order before
/// resequencing were `resequenced` and `late`, after it `late` alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Order {
    /// In order: passed at once.
    pub(super) in_order: u64,
    /// Before one that they belong behind: waited.
    pub(super) resequenced: u64,
    /// After they had been given up: passed out of order.
    pub(super) late: u64,
    /// For the second time: dropped.
    pub(super) duplicates: u64,
    /// Known to be lost without waiting.
    pub(super) lost: u64,
    /// Waits for nothing that came in time.
    pub(super) expired: u64,
    /// Waits that ended because too much waited.
    pub(super) overflowed: u64,
}

impl From<hawser_multipath::ResequencerCounters> for Order {
    fn from(counters: hawser_multipath::ResequencerCounters) -> Self {
        let hawser_multipath::ResequencerCounters {
            in_order,
            resequenced,
            late,
            duplicates,
            lost,
            expired,
            overflowed,
        } = counters;
        Self { in_order, resequenced, late, duplicates, lost, expired, overflowed }
    }
}

/// Counters of the TUN device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct TunCounters {
    /// From this branch, read from the device.
    pub(super) read: Traffic,
    /// To this branch, written to the device.
    pub(super) written: Traffic,
    /// Not carried.
    pub(super) drops: TunDrops,
}

/// Connections from others than peers, and what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct StrangerCounters {
    /// Refused for their address, before anything was read.
    pub(super) foreign_address: u64,
    /// Refused because too many others had not said yet who they are.
    pub(super) too_many: u64,
    /// Sent something that is not a stream of records.
    pub(super) malformed: u64,
    /// Failed to show a certificate of ours, or encryption failed.
    pub(super) tls: u64,
    /// Are no peer, or not the one that they say.
    pub(super) stranger: u64,
    /// Went away without a word, as a peer's probe of a path does.
    pub(super) probes: u64,
    /// Said nothing in time, went away, or had a broken connection.
    pub(super) gone: u64,
}

impl StrangerCounters {
    /// Counts one.
    pub(super) fn count(&mut self, cause: super::link::Cause) {
        use super::link::Cause;
        *match cause {
            Cause::Malformed => &mut self.malformed,
            Cause::Tls => &mut self.tls,
            Cause::Stranger => &mut self.stranger,
            Cause::Io | Cause::Closed | Cause::Silent => &mut self.gone,
        } += 1;
    }
}
