//! ICMP for IPv4 (RFC 792): the one message that a gateway itself sends.

use std::net::Ipv4Addr;

use crate::{
    checksum::Sum,
    ipv4::{self, protocol},
};

/// Bytes of the packet in question that are sent back: as many as fit into 576 bytes
/// (RFC 1812 section 4.3.2.3).
const QUOTED: usize = 576 - ipv4::HEADER_LEN - 8;

/// Why a packet could not be delivered (RFC 792, RFC 1812 section 5.2.7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// No route.
    Network = 0,
    /// A route, but the other end is down.
    Host = 1,
}

/// The message to the source of `packet` that says why it was not delivered, without an IP header.
///
/// None where no answer may be given (RFC 1812 section 4.3.2.7): to ICMP errors, fragments without the
/// start, and packets from or to something that is not one host.
#[must_use]
pub fn unreachable(packet: &ipv4::Packet<'_>, why: Unreachable) -> Option<Vec<u8>> {
    if !may_be_answered(packet) {
        return None;
    }
    let quoted = packet.bytes().get(..QUOTED).unwrap_or(packet.bytes());
    let mut message = vec![3, why as u8, 0, 0, 0, 0, 0, 0];
    message.extend_from_slice(quoted);
    let checksum = Sum::default().bytes(&message).finish();
    message.get_mut(2..4)?.copy_from_slice(&checksum);
    Some(message)
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
    use crate::ipv4::Repr;

    fn packet(source: [u8; 4], protocol: u8, payload: &[u8]) -> Vec<u8> {
        let repr =
            Repr { source: source.into(), destination: [10, 2, 0, 1].into(), protocol, ttl: 9 };
        let mut bytes = repr.emit(payload.len()).unwrap().to_vec();
        bytes.extend_from_slice(payload);
        bytes
    }

    fn answer(bytes: &[u8]) -> Option<Vec<u8>> {
        let packet = ipv4::Packet::parse(bytes).unwrap();
        unreachable(&packet, Unreachable::Host)
    }

    #[test]
    fn quotes_the_packet() {
        let sent = packet([10, 1, 0, 1], protocol::UDP, &[7; 1000]);
        let message = answer(&sent).unwrap();
        assert_eq!(message[..2], [3, 1]);
        assert_eq!(Sum::default().bytes(&message).finish(), [0, 0]);
        assert_eq!(message[8..], sent[..548]);
    }

    #[test]
    fn errors_and_groups_are_not_answered() {
        assert_eq!(answer(&packet([10, 1, 0, 1], protocol::ICMP, &[3, 1, 0, 0])), None);
        assert_eq!(answer(&packet([224, 0, 0, 1], protocol::UDP, &[])), None);
        assert_eq!(answer(&packet([0, 0, 0, 0], protocol::UDP, &[])), None);
        assert!(answer(&packet([10, 1, 0, 1], protocol::ICMP, &[8, 0, 0, 0])).is_some());
    }
}
