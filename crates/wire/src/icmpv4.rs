//! ICMP for IPv4 (RFC 792): the errors that a gateway itself sends.

use std::net::Ipv4Addr;

use crate::{
    checksum::Sum,
    ipv4::{self, Repr, protocol},
};

/// Bytes of the packet in question that are sent back: as many as fit into 576 bytes
/// (RFC 1812 section 4.3.2.3).
const QUOTED: usize = 576 - ipv4::HEADER_LEN - 8;

/// An answer that a packet is too big for a link of `mtu` bytes (RFC 792, RFC 1191 section 4), from the
/// address that the packet came to. The beginning of the packet is enough.
#[must_use]
pub fn fragmentation_needed(packet: &ipv4::Packet<'_>, mtu: u16) -> Option<Vec<u8>> {
    let [high, low] = mtu.to_be_bytes();
    answer(packet, packet.destination(), [3, 4, 0, 0, 0, 0, high, low])
}

/// Why a packet could not be delivered (RFC 792, RFC 1812 section 5.2.7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// No route.
    Network = 0,
    /// A route, but the other end is down.
    Host = 1,
}

/// An answer to `packet`, from `source`, that says why it was not delivered.
///
/// None where no answer may be given (RFC 1812 section 4.3.2.7): to ICMP errors, fragments without the
/// start, and packets from or to something that is not one host.
#[must_use]
pub fn unreachable(
    packet: &ipv4::Packet<'_>,
    source: Ipv4Addr,
    why: Unreachable,
) -> Option<Vec<u8>> {
    answer(packet, source, [3, why as u8, 0, 0, 0, 0, 0, 0])
}

fn answer(packet: &ipv4::Packet<'_>, source: Ipv4Addr, header: [u8; 8]) -> Option<Vec<u8>> {
    if !may_be_answered(packet) {
        return None;
    }
    let quoted = packet.bytes().get(..QUOTED).unwrap_or(packet.bytes());
    let mut message = header.to_vec();
    message.extend_from_slice(quoted);
    let checksum = Sum::default().bytes(&message).finish();
    message.get_mut(2..4)?.copy_from_slice(&checksum);
    let repr = Repr { source, destination: packet.source(), protocol: protocol::ICMP, ttl: 64 };
    let mut answer = repr.emit(message.len())?.to_vec();
    answer.append(&mut message);
    Some(answer)
}

fn may_be_answered(packet: &ipv4::Packet<'_>) -> bool {
    let one_host = |a: Ipv4Addr| !(a.is_unspecified() || a.is_multicast() || a.is_broadcast());
    let icmp_error = packet.protocol() == protocol::ICMP
        && !matches!(packet.payload().first(), Some(0 | 8 | 13 | 14 | 15 | 16 | 17 | 18));
    one_host(packet.source())
        && one_host(packet.destination())
        && !packet.source().is_loopback()
        && !packet.is_later_fragment()
        && !icmp_error
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(source: [u8; 4], protocol: u8, payload: &[u8]) -> Vec<u8> {
        let repr =
            Repr { source: source.into(), destination: [10, 2, 0, 1].into(), protocol, ttl: 9 };
        let mut bytes = repr.emit(payload.len()).unwrap().to_vec();
        bytes.extend_from_slice(payload);
        bytes
    }

    fn unreachable_host(bytes: &[u8]) -> Option<Vec<u8>> {
        let packet = ipv4::Packet::parse(bytes).unwrap();
        unreachable(&packet, [10, 1, 0, 254].into(), Unreachable::Host)
    }

    #[test]
    fn quotes_the_packet() {
        let sent = packet([10, 1, 0, 1], protocol::UDP, &[7; 1000]);
        let bytes = unreachable_host(&sent).unwrap();
        let reply = ipv4::Packet::parse(&bytes).unwrap();
        assert_eq!(reply.destination(), Ipv4Addr::new(10, 1, 0, 1));
        assert_eq!(reply.bytes().len(), 576);
        assert_eq!(reply.payload()[..2], [3, 1]);
        assert_eq!(Sum::default().bytes(reply.payload()).finish(), [0, 0]);
        assert_eq!(reply.payload()[8..], sent[..548]);
    }

    #[test]
    fn too_big_says_what_would_fit() {
        let sent = packet([10, 1, 0, 1], protocol::TCP, &[7; 1480]);
        let seen = ipv4::Packet::parse_quoted(&sent[..60]).unwrap();
        let bytes = fragmentation_needed(&seen, 1400).unwrap();
        let reply = ipv4::Packet::parse(&bytes).unwrap();
        assert_eq!(reply.source(), Ipv4Addr::new(10, 2, 0, 1));
        assert_eq!(reply.payload()[..2], [3, 4]);
        assert_eq!(reply.payload()[4..8], [0, 0, 5, 120]);
        assert_eq!(reply.payload()[8..], sent[..60]);
        assert_eq!(Sum::default().bytes(reply.payload()).finish(), [0, 0]);
    }

    #[test]
    fn errors_and_groups_are_not_answered() {
        assert_eq!(unreachable_host(&packet([10, 1, 0, 1], protocol::ICMP, &[3, 1, 0, 0])), None);
        assert_eq!(unreachable_host(&packet([224, 0, 0, 1], protocol::UDP, &[])), None);
        assert_eq!(unreachable_host(&packet([0, 0, 0, 0], protocol::UDP, &[])), None);
        assert!(unreachable_host(&packet([10, 1, 0, 1], protocol::ICMP, &[8, 0, 0, 0])).is_some());
    }
}
