//! Counters of a gateway with any transport. Field names are those of the control API.

use schemars::JsonSchema;
use serde::Serialize;

/// Packets and bytes in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Traffic {
    /// Units handed on as a whole: IP packets, of up to 64 KiB where segmentation is offloaded.
    pub records: u64,
    /// IP packets as on the wire, after segmentation.
    pub packets: u64,
    /// Bytes of the records with inner IP headers, without framing and encryption.
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

/// Records dropped at the TUN device, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TunDrops {
    /// Not an IP packet, or its header disagrees with its length.
    pub malformed: u64,
    /// Destination not in any peer's prefix.
    pub unknown_destination: u64,
    /// From a peer: the kernel did not accept it.
    pub write_failed: u64,
}

/// Records dropped on the way to or from a peer, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PeerDrops {
    /// To the peer: the queue was full.
    pub queue_full: u64,
    /// To the peer: the queue was full and there was no connection.
    pub peer_down: u64,
    /// To the peer: dropped by queue management (CoDel).
    pub queue_delay: u64,
    /// To the peer: larger than the path's MTU.
    pub too_long: u64,
    /// To the peer: of a kind that it does not take (IPv6).
    pub unsupported: u64,
    /// To the peer: the kernel refused it.
    pub send_failed: u64,
    /// From the peer: not an IP packet, or not one that may be carried.
    pub malformed: u64,
    /// From the peer: source not in the peer's prefix.
    pub foreign_source: u64,
    /// From the peer: destination not in a local prefix.
    pub not_local: u64,
    /// From the peer: to the gateway itself, and neither for an open service nor an answer.
    pub closed_service: u64,
    /// From the peer: compressed with a context that is unknown here.
    pub unknown_context: u64,
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // see `Ends`
pub enum EndCause {
    Io,
    Malformed,
    Tls,
    Closed,
    Silent,
    IdentityMismatch,
}

/// Connections of a group that ended, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Ends {
    /// The kernel reported an error, such as a reset or an unreachable peer.
    pub io: u64,
    /// Malformed records.
    pub malformed: u64,
    /// Handshake or encryption failed.
    pub tls: u64,
    /// Closed by the peer.
    pub closed: u64,
    /// Idle timeout: nothing was received for too long.
    pub silent: u64,
    /// Authenticated as another branch, or with a revoked certificate.
    pub identity_mismatch: u64,
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
            EndCause::IdentityMismatch => &mut self.identity_mismatch,
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
    /// Dropped.
    pub drops: PeerDrops,
    /// Connections that ended.
    pub ends: Ends,
    /// Packets from the peer by the order of their arrival (`quic`).
    pub order: Order,
    /// Retransmission of packets to the peer (`quic`).
    pub recovery: RecoveryCounters,
    /// Header compression of packets to the peer (`quic`).
    pub headers: HeaderCounters,
    /// TCP acknowledgements to the peer replaced by a later one while queued (`quic`; RFC 3449
    /// section 5.2.1).
    pub acks_filtered: u64,
    /// Packets to the peer that exceed the path MTU (`quic`).
    pub sizes: SizeCounters,
    /// TCP connections of the TCP proxy (`quic`).
    pub tcp_proxy: TcpProxyCounters,
    /// Introductions by the rendezvous, and what it relays (`quic`).
    pub rendezvous: RendezvousCounters,
}

/// Introductions, and datagrams relayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RendezvousCounters {
    /// Introductions of others sent to the peer, or of others received from it.
    pub introductions: u64,
    /// Messages from the peer that were ignored: malformed, too many, or not meant for this gateway.
    pub ignored: u64,
    /// Datagrams from the peer passed on to others.
    pub relayed: u64,
    /// Bytes of these.
    pub relayed_bytes: u64,
    /// Datagrams from the peer for others not passed on, because there was no connection or no room.
    pub not_relayed: u64,
}

/// Packets that exceed the path MTU. Dropped ones are counted in the drops (`too_long`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SizeCounters {
    /// ICMP errors sent: Fragmentation Needed, Packet Too Big.
    pub errors_sent: u64,
    /// TCP packets and GSO packets cut into smaller segments than their sender intended.
    pub resegmented: u64,
    /// IPv4 packets fragmented (RFC 791).
    pub fragmented: u64,
    /// Tunnel datagrams to the peer sent in fragments.
    pub sent_in_fragments: u64,
    /// Tunnel datagrams from the peer reassembled from fragments.
    pub reassembled: u64,
    /// Tunnel datagrams from the peer given up because a fragment was missing.
    pub incomplete: u64,
}

/// Packets that paths lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RecoveryCounters {
    /// Retransmissions; a packet may count more than once.
    pub retransmitted: u64,
    /// Duplicates of these, sent on another path at the same time.
    pub duplicated: u64,
    /// Not retransmitted: too old, or no memory.
    pub abandoned: u64,
}

/// Header compression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HeaderCounters {
    /// Compressed packets.
    pub compressed: u64,
    /// Bytes saved.
    pub saved_bytes: u64,
}

/// TCP connections terminated by the TCP proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TcpProxyCounters {
    /// Opened by either side.
    pub opened: u64,
    /// Not opened: too many, or not allowed.
    pub refused: u64,
    /// Closed by both ends.
    pub ended: u64,
    /// Reset by an end, failed to open, or abandoned with the peer.
    pub reset: u64,
    /// Payload bytes sent to the peer.
    pub sent_bytes: u64,
    /// Payload bytes from the peer that local connections accepted.
    pub received_bytes: u64,
    /// Messages moved to another path because theirs had failed.
    pub retransmitted: u64,
}

#[allow(clippy::struct_field_names)] // `in_order` is what it is called
/// Packets from the peer by the order of their arrival on all paths together. `resequenced` and
/// `late` were out of order before resequencing, `late` alone after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Order {
    /// In order: delivered at once.
    pub in_order: u64,
    /// Before a packet that precedes them: buffered.
    pub resequenced: u64,
    /// After they had been abandoned: delivered out of order.
    pub late: u64,
    /// Again: dropped.
    pub duplicates: u64,
    /// Declared lost without waiting.
    pub lost: u64,
    /// Gaps that reached their deadline.
    pub expired: u64,
    /// Gaps abandoned because the buffer was full.
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
    /// Dropped.
    pub drops: TunDrops,
}

/// Connections that ended before their hello was accepted, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UnauthenticatedCounters {
    /// From an address of no peer: refused before reading anything.
    pub foreign_address: u64,
    /// Refused: too many other unauthenticated connections.
    pub too_many: u64,
    /// Refused: too many other unauthenticated connections from this address (IPv6: /64).
    pub too_many_from_source: u64,
    /// Asked to prove their address first, because there were many (`quic`; RFC 9000 section
    /// 8.1.2).
    pub retries: u64,
    /// Malformed records.
    pub malformed: u64,
    /// Handshake failed, such as for a certificate of another authority.
    pub tls: u64,
    /// The hello names no peer, or not the branch of the certificate.
    pub identity_mismatch: u64,
    /// Closed without sending anything, as a peer's path probe does.
    pub probes: u64,
    /// Closed, failed or timed out before the hello.
    pub no_hello: u64,
}

impl UnauthenticatedCounters {
    /// Counts one.
    pub fn count(&mut self, cause: EndCause) {
        *match cause {
            EndCause::Malformed => &mut self.malformed,
            EndCause::Tls => &mut self.tls,
            EndCause::IdentityMismatch => &mut self.identity_mismatch,
            EndCause::Io | EndCause::Closed | EndCause::Silent => &mut self.no_hello,
        } += 1;
    }
}
