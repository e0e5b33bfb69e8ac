//! Sizes of packets.

use hawser_wire::tunnel::HEADER_LEN;

/// Bytes of a packet before the path has told how many it takes (RFC 9000 section 14.1).
pub(super) const FIRST_PACKET: u16 = 1200;

/// UDP payload that fits where Ethernet frames do: 1500 bytes without IPv4 and UDP headers. Where the
/// path takes less, discovery finds it (RFC 8899).
pub const LARGEST: u16 = 1472;

/// What a QUIC packet and our header take of it at most: flags and connection ID, number, tag, frame.
const FRAMING: usize = 1 + ID_LEN + 4 + 16 + 9 + HEADER_LEN;

/// Largest inner packet that every path takes, as far as Ethernet frames do.
#[allow(clippy::cast_possible_truncation)] // less than 100
pub const INNER_MTU: u16 = LARGEST - FRAMING as u16;

/// Bytes of connection IDs that servers hand out; clients need none, for each has a socket of its own.
pub(super) const ID_LEN: usize = 4;

/// Bytes of datagrams that wait in a connection: the scheduler gives it no more than it may send.
pub(super) const SEND_BUFFER: usize = 1 << 20;
