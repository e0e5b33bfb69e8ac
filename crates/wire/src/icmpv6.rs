//! ICMP for IPv6 (RFC 4443): the error that a gateway itself sends.

use std::{net::Ipv6Addr, ops::RangeInclusive};

use crate::{
    bytes::put,
    checksum::Sum,
    ipv6::{HEADER_LEN, LEAST_MTU, Packet, Repr},
};

/// Next header of ICMPv6.
pub const ICMPV6: u8 = 58;

const PACKET_TOO_BIG: u8 = 2;

/// Types of errors that quote a packet (RFC 4443 section 3): unreachable, too big, time exceeded, parameter
/// problem.
pub(crate) const ERRORS: RangeInclusive<u8> = 1..=4;

/// Offset of the checksum.
const CHECKSUM: usize = 2;

/// Hop limit of an error.
const HOP_LIMIT: u8 = 64;

/// Types below this one are errors (RFC 4443 section 2.1).
const FIRST_INFORMATIONAL: u8 = 128;

/// Bytes of the packet in question that are sent back: as many as fit into the minimum MTU (RFC
/// 4443 section 3.2).
const QUOTED: usize = LEAST_MTU as usize - HEADER_LEN - 8;

/// Packet Too Big for a link of `mtu` bytes (RFC 4443 section 3.2), from the address that the
/// packet was for. No MTU below 1280 is announced: no host would go below it (RFC 8201 section 4).
///
/// None where no answer may be given (RFC 4443 section 2.4): to ICMPv6 errors, and packets from or
/// to something that is not one host.
#[must_use]
pub fn packet_too_big(packet: &Packet<'_>, mtu: u16) -> Option<Vec<u8>> {
    let (source, destination) = (packet.destination(), packet.source());
    let is_error = packet.next_header() == ICMPV6
        && packet.payload().first().is_none_or(|kind| *kind < FIRST_INFORMATIONAL);
    if is_error || !(is_host(source) && is_host(destination)) {
        return None;
    }
    let quoted = packet.bytes().get(..QUOTED).unwrap_or(packet.bytes());
    let mut message = vec![PACKET_TOO_BIG, 0, 0, 0];
    message.extend(u32::from(mtu.max(LEAST_MTU)).to_be_bytes());
    message.extend_from_slice(quoted);
    emit(source, destination, message)
}

/// A packet with an ICMPv6 message, whose checksum is computed. None if the message is too long.
pub(crate) fn emit(
    source: Ipv6Addr,
    destination: Ipv6Addr,
    mut message: Vec<u8>,
) -> Option<Vec<u8>> {
    put(&mut message, CHECKSUM, 0);
    let sum = checksum(source, destination, &message);
    put(&mut message, CHECKSUM, u16::from_be_bytes(sum));
    let repr = Repr { source, destination, next_header: ICMPV6, hop_limit: HOP_LIMIT };
    let mut packet = repr.emit(message.len())?.to_vec();
    packet.append(&mut message);
    Some(packet)
}

/// The checksum of a message, with the pseudo-header (RFC 4443 section 2.3). Zero if the message has the right
/// one.
#[must_use]
pub fn checksum(source: Ipv6Addr, destination: Ipv6Addr, message: &[u8]) -> [u8; 2] {
    #[allow(clippy::cast_possible_truncation)] // a longer message is not sent
    let len = message.len() as u16;
    let sum = Sum::default().bytes(&source.octets()).bytes(&destination.octets());
    sum.word(len).word(ICMPV6.into()).bytes(message).finish()
}

fn is_host(address: Ipv6Addr) -> bool {
    !(address.is_unspecified() || address.is_multicast() || address.is_loopback())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn packet(source: Ipv6Addr, next_header: u8, payload: &[u8]) -> Vec<u8> {
        let destination = "2001:db8:2::1".parse().unwrap();
        let repr = Repr { source, destination, next_header, hop_limit: 9 };
        let mut bytes = repr.emit(payload.len()).unwrap().to_vec();
        bytes.extend_from_slice(payload);
        bytes
    }

    fn answer(bytes: &[u8], mtu: u16) -> Option<Vec<u8>> {
        packet_too_big(&Packet::parse(bytes).unwrap(), mtu)
    }

    #[test]
    fn it_quotes_the_packet_and_says_what_would_fit() {
        let source: Ipv6Addr = "2001:db8:1::1".parse().unwrap();
        let sent = packet(source, 17, &[7; 1400]);
        let bytes = answer(&sent, 1326).unwrap();
        let reply = Packet::parse(&bytes).unwrap();
        assert_eq!((reply.destination(), bytes.len()), (source, 1280));
        assert_eq!(reply.payload()[..2], [2, 0]);
        assert_eq!(reply.payload()[4..8], [0, 0, 5, 46]);
        assert_eq!(reply.payload()[8..], sent[..1232]);
        let sum = Sum::default().bytes(&bytes[8..40]).word(1240).word(58).bytes(reply.payload());
        assert_eq!(sum.finish(), [0, 0]);
    }

    #[test]
    fn no_less_than_1280_is_announced() {
        let bytes = answer(&packet("2001:db8:1::1".parse().unwrap(), 17, &[7; 1400]), 1156);
        assert_eq!(bytes.unwrap()[44..48], [0, 0, 5, 0]);
    }

    #[test]
    fn errors_and_groups_are_not_answered() {
        let source = "2001:db8:1::1".parse().unwrap();
        assert_eq!(answer(&packet(source, ICMPV6, &[1, 0, 0, 0]), 1400), None);
        assert_eq!(answer(&packet(source, ICMPV6, &[]), 1400), None);
        assert_eq!(answer(&packet("ff02::1".parse().unwrap(), 17, &[]), 1400), None);
        assert_eq!(answer(&packet(Ipv6Addr::UNSPECIFIED, 17, &[]), 1400), None);
        assert!(answer(&packet(source, ICMPV6, &[128, 0, 0, 0]), 1400).is_some());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100), mtu: u16) {
            if let Ok(packet) = Packet::parse(&bytes) {
                let _ = packet_too_big(&packet, mtu);
            }
        }
    }
}
