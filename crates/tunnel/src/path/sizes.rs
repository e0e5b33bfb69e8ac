//! Packet sizes.

use hawser_wire::tunnel::HEADER_LEN;

/// UDP payload, bytes, before MTU discovery (RFC 9000 section 14.1).
pub(super) const MIN_DATAGRAM: u16 = 1200;

/// UDP payload, bytes, that fits an Ethernet frame: 1500 bytes less IPv4 and UDP headers. Discovery
/// finds less where the path takes less (RFC 8899).
pub const MAX_DATAGRAM: u16 = 1472;

/// Maximum overhead within the UDP payload, bytes: QUIC flags and connection ID, packet number,
/// tag, DATAGRAM frame, our header.
const FRAMING: usize = 1 + CID_LEN + 4 + 16 + 9 + HEADER_LEN;

/// Largest inner packet that fits every path that takes Ethernet frames.
#[allow(clippy::cast_possible_truncation)] // less than 100
pub const INNER_MTU: u16 = MAX_DATAGRAM - FRAMING as u16;

/// Length of the connection IDs that servers issue. Clients need none: each has a socket of its
/// own.
pub(super) const CID_LEN: usize = 4;

/// Datagram send buffer of a connection, bytes: the scheduler gives it no more than its window.
pub(super) const SEND_BUFFER: usize = 1 << 20;
