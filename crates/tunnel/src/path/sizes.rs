//! Packet sizes.

use hawser_wire::tunnel::HEADER_LEN;

/// UDP payload, bytes, before MTU discovery (RFC 9000 section 14.1).
pub(crate) const MIN_DATAGRAM: u16 = 1200;

/// UDP payload, bytes, that fits an Ethernet frame: 1500 bytes less IPv4 and UDP headers. Discovery
/// finds less where the path takes less (RFC 8899).
pub const MAX_DATAGRAM: u16 = 1472;

/// Maximum overhead within the UDP payload, bytes: QUIC flags and connection ID, packet number,
/// tag, DATAGRAM frame, our header.
const FRAMING: usize = 1 + CID_LEN + 4 + 16 + 9 + HEADER_LEN;

/// Largest inner packet that fits every path that takes Ethernet frames.
#[allow(clippy::cast_possible_truncation)] // less than 100
pub const INNER_MTU: u16 = MAX_DATAGRAM - FRAMING as u16;

/// Largest inner packet that goes whole in a datagram of `datagram` bytes.
pub(crate) const fn inner_mtu(datagram: u16) -> u16 {
    #[allow(clippy::cast_possible_truncation)] // less than 100
    datagram.saturating_sub(FRAMING as u16)
}

/// Upper bound of MTU discovery, IP packet in bytes: jumbo frames.
const MAX_PACKET: u16 = 9216;

/// Upper bound of MTU discovery, UDP payload in bytes, on a path that starts at an interface with
/// this MTU. At least an Ethernet frame: the MTU of the interface may be raised later.
#[must_use]
pub fn max_datagram(interface: u32, is_v6: bool) -> u16 {
    let packet = u16::try_from(interface).unwrap_or(MAX_PACKET).clamp(1500, MAX_PACKET);
    packet - if is_v6 { 48 } else { 28 }
}

/// Maximum length of a GSO batch, bytes: the longest UDP payload over IPv4.
pub(super) const MAX_BATCH: usize = 65_507;

/// Length of the connection IDs that servers issue. Clients need none: each has a socket of its
/// own.
pub(super) const CID_LEN: usize = 4;

/// Datagram send buffer of a connection, bytes: the scheduler gives it no more than its window.
pub(super) const SEND_BUFFER: usize = 1 << 20;
