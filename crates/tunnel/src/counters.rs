//! What a gateway counts, whatever its transport. The names of fields are those of the control API.

use schemars::JsonSchema;
use serde::Serialize;

/// Packets and bytes in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Traffic {
    /// Units that were handed on whole: IP packets, of up to 64 KiB where segmentation is left to the
    /// kernel.
    pub records: u64,
    /// IP packets as they are on a wire, after segmentation.
    pub packets: u64,
    /// Bytes of the records, inner IP headers included, framing and encryption not.
    pub bytes: u64,
}

impl Traffic {
    /// Counts one record of `packets` packets.
    pub fn add(&mut self, packets: usize, bytes: usize) {
        self.records += 1;
        self.packets += packets as u64;
        self.bytes += bytes as u64;
    }
}

/// Records that came from the TUN device and went nowhere, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TunDrops {
    /// Not an IP packet whose header agrees with its length.
    pub malformed: u64,
    /// To an address behind no peer.
    pub unknown_destination: u64,
    /// The kernel did not take a packet from a peer.
    pub write_failed: u64,
}

/// Records that were dropped on the way to a peer or from it, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PeerDrops {
    /// To the peer: the queue was full while the connection was slow.
    pub queue_full: u64,
    /// To the peer: the queue was full while there was no connection.
    pub peer_down: u64,
    /// To the peer: too long in the queue.
    pub queue_delay: u64,
    /// To the peer: larger than the path takes.
    pub too_long: u64,
    /// To the peer: the kernel refused it.
    pub send_failed: u64,
    /// From the peer: not an IP packet, or not one that may be carried.
    pub malformed: u64,
    /// From the peer: its source is not behind the peer.
    pub foreign_source: u64,
    /// From the peer: compressed with a context that is not known here.
    pub unknown_context: u64,
}

/// Why connections end, as it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // see `Ends`
pub enum EndCause {
    Io,
    Malformed,
    Tls,
    Closed,
    Silent,
    Stranger,
}

/// Connections of a group that ended, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Ends {
    /// The kernel reported an error, such as a reset or an unreachable peer.
    pub io: u64,
    /// What came was not a stream of records.
    pub malformed: u64,
    /// Handshake or encryption failed.
    pub tls: u64,
    /// Closed by the peer.
    pub closed: u64,
    /// Nothing was heard for too long.
    pub silent: u64,
    /// The other end was not who it should be.
    pub stranger: u64,
}

impl Ends {
    /// Counts one.
    pub fn count(&mut self, cause: EndCause) {
        *match cause {
            EndCause::Io => &mut self.io,
            EndCause::Malformed => &mut self.malformed,
            EndCause::Tls => &mut self.tls,
            EndCause::Closed => &mut self.closed,
            EndCause::Silent => &mut self.silent,
            EndCause::Stranger => &mut self.stranger,
        } += 1;
    }
}

/// Counters of one path group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct GroupCounters {
    /// To the peer.
    pub sent: Traffic,
    /// From the peer.
    pub received: Traffic,
    /// Not carried.
    pub drops: PeerDrops,
    /// Connections that ended.
    pub ends: Ends,
    /// What came from the peer, in which order; the `quic` transport counts it.
    pub order: Order,
    /// Packets to the peer that the `quic` transport kept for the case that they are lost.
    pub recovery: RecoveryCounters,
    /// Packets to the peer whose headers the `quic` transport compressed.
    pub headers: HeaderCounters,
    /// Acknowledgements of TCP to the peer that a later one took the place of while they waited (`quic`).
    pub superseded: u64,
    /// TCP connections that the `quic` transport terminated.
    pub lane: LaneCounters,
}

/// Packets that paths lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RecoveryCounters {
    /// Sent again; each time counts.
    pub resent: u64,
    /// Copies of these, at the same time on another path.
    pub copied: u64,
    /// Not sent again: it was too late, or there was no room to keep them.
    pub given_up: u64,
}

/// Header compression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HeaderCounters {
    /// Packets that were compressed.
    pub compressed: u64,
    /// Bytes that these have become shorter.
    pub spared_bytes: u64,
}

/// TCP connections that were terminated and carried as streams (the TCP lane).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LaneCounters {
    /// Begun, from this branch and from the peer's.
    pub opened: u64,
    /// Not begun: there were too many, or it was not allowed.
    pub refused: u64,
    /// Ended by both ends.
    pub ended: u64,
    /// Reset by an end, not made, or given up with the peer.
    pub reset: u64,
    /// Bytes sent to the peer, of the connections' own.
    pub sent_bytes: u64,
    /// Bytes from the peer that connections here took.
    pub received_bytes: u64,
    /// Messages given to another path because theirs had died.
    pub resent: u64,
}

#[allow(clippy::struct_field_names)] // `in_order` is what it is called
/// Packets from the peer, by the order in which they came on all paths together. Out of order before
/// resequencing were `resequenced` and `late`, after it `late` alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Order {
    /// In order: passed at once.
    pub in_order: u64,
    /// Before one that they belong behind: waited.
    pub resequenced: u64,
    /// After they had been given up: passed out of order.
    pub late: u64,
    /// For the second time: dropped.
    pub duplicates: u64,
    /// Known to be lost without waiting.
    pub lost: u64,
    /// Waits for nothing that came in time.
    pub expired: u64,
    /// Waits that ended because too much waited.
    pub overflowed: u64,
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
pub struct TunCounters {
    /// From this branch, read from the device.
    pub read: Traffic,
    /// To this branch, written to the device.
    pub written: Traffic,
    /// Not carried.
    pub drops: TunDrops,
}

/// Connections from others than peers, and what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StrangerCounters {
    /// Refused for their address, before anything was read.
    pub foreign_address: u64,
    /// Refused because too many others had not said yet who they are.
    pub too_many: u64,
    /// Sent something that is not a stream of records.
    pub malformed: u64,
    /// Failed to show a certificate of ours, or encryption failed.
    pub tls: u64,
    /// Are no peer, or not the one that they say.
    pub stranger: u64,
    /// Went away without a word, as a peer's probe of a path does.
    pub probes: u64,
    /// Said nothing in time, went away, or had a broken connection.
    pub gone: u64,
}

impl StrangerCounters {
    /// Counts one.
    pub fn count(&mut self, cause: EndCause) {
        *match cause {
            EndCause::Malformed => &mut self.malformed,
            EndCause::Tls => &mut self.tls,
            EndCause::Stranger => &mut self.stranger,
            EndCause::Io | EndCause::Closed | EndCause::Silent => &mut self.gone,
        } += 1;
    }
}
