//! Inner packets: numbered TCP segments.

use std::net::Ipv4Addr;

use ipnet::{IpNet, Ipv4Net};

/// Offsets in a packet: IPv4 header (RFC 791), TCP header (RFC 9293), and payload, which begins with
/// the packet's number. The source port is its flow.
const SOURCE_PORT: usize = 20;
const PAYLOAD: usize = 40;

/// A host behind a gateway.
#[must_use]
pub fn host(gateway: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, if gateway == 0 { 1 } else { 2 }, 0, 5)
}

/// Prefix behind a gateway.
pub(super) fn prefix(gateway: usize) -> Option<IpNet> {
    Ipv4Net::new(host(gateway), 24).ok().map(|net| net.trunc().into())
}

/// A packet of `len` bytes with flow and number, from a host behind `gateway` to one behind the
/// other.
#[must_use]
#[allow(clippy::cast_possible_truncation)] // at most 64 KiB
pub fn segment(gateway: usize, flow: u16, number: u32, len: usize) -> Vec<u8> {
    let len = len.max(PAYLOAD + 4);
    let mut packet = vec![0x45, 0];
    packet.extend((len as u16).to_be_bytes());
    packet.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
    packet.extend(host(gateway).octets());
    packet.extend(host(1 - gateway).octets());
    packet.extend(flow.to_be_bytes());
    packet.extend([0, 80]);
    packet.extend(number.to_be_bytes());
    packet.extend([0, 0, 0, 0, 0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0]);
    packet.extend(number.to_be_bytes());
    packet.resize(len, number as u8);
    packet
}

/// Flow and number of a packet; None for what a gateway has cut off from its beginning.
#[must_use]
pub fn number_of(packet: &[u8]) -> Option<(u16, u32)> {
    let flow = packet.get(SOURCE_PORT..SOURCE_PORT + 2)?.try_into().ok()?;
    let number: [u8; 4] = packet.get(PAYLOAD..PAYLOAD + 4)?.try_into().ok()?;
    let sequence = packet.get(SOURCE_PORT + 4..SOURCE_PORT + 8)?;
    (sequence == number).then(|| (u16::from_be_bytes(flow), u32::from_be_bytes(number)))
}
