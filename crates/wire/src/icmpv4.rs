//! ICMP for IPv4 (RFC 792): the errors that a gateway originates.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+-------------------------------+
//! |   Type (3)    |     Code      |           Checksum            |
//! +---------------+---------------+-------------------------------+
//! |            unused             |  Next-Hop MTU (code 4 only)   |   RFC 1191 section 4
//! +-------------------------------+-------------------------------+
//! |   Internet header and first bytes of the original datagram    |
//! +---------------------------------------------------------------+
//! ```

use std::net::Ipv4Addr;

use crate::{
    bytes::put,
    checksum::Sum,
    ipv4::{self, Repr, protocol},
};

/// Length of the header before the quoted packet, bytes.
pub(crate) const HEADER_LEN: usize = 8;

/// Bytes of the original packet that are quoted: as many as fit into 576 bytes (RFC 1812 section 4.3.2.3).
const QUOTED_MAX: usize = 576 - ipv4::HEADER_LEN - HEADER_LEN;

/// TTL of an error. RFC 1700 recommended 64.
const TTL: u8 = 64;

pub(crate) mod field {
    pub(crate) const CHECKSUM: usize = 2;
    pub(crate) const NEXT_HOP_MTU: usize = 6;
}

/// Message types (RFC 792).
pub(crate) mod kind {
    pub(crate) const ECHO_REPLY: u8 = 0;
    pub(crate) const DESTINATION_UNREACHABLE: u8 = 3;
    pub(crate) const ECHO: u8 = 8;
    pub(crate) const TIME_EXCEEDED: u8 = 11;
    pub(crate) const PARAMETER_PROBLEM: u8 = 12;
    pub(crate) const TIMESTAMP: u8 = 13;
    pub(crate) const TIMESTAMP_REPLY: u8 = 14;
    pub(crate) const INFORMATION_REQUEST: u8 = 15;
    pub(crate) const INFORMATION_REPLY: u8 = 16;
    /// RFC 950 appendix I.
    pub(crate) const ADDRESS_MASK_REQUEST: u8 = 17;
    pub(crate) const ADDRESS_MASK_REPLY: u8 = 18;
}

/// Code of "fragmentation needed and DF set" (RFC 792).
const FRAGMENTATION_NEEDED: u8 = 4;

/// Codes of "destination unreachable" for packets that could not be delivered (RFC 792; RFC 1812 section
/// 5.2.7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// There is no route.
    Network = 0,
    /// There is a route, but the other end is down.
    Host = 1,
}

/// The error that a packet is too big for a link of `mtu` bytes (RFC 1191 section 4), sent from the packet's
/// destination address. `packet` may be truncated.
#[must_use]
pub fn fragmentation_needed(packet: &ipv4::Packet<'_>, mtu: u16) -> Option<Vec<u8>> {
    error(packet, packet.destination(), FRAGMENTATION_NEEDED, mtu)
}

/// The error that `packet` could not be delivered, sent from `source`.
///
/// `None` if no error may be sent (RFC 1812 section 4.3.2.7): about ICMP errors, fragments other than the
/// first, and packets whose source or destination is not a single host.
#[must_use]
pub fn unreachable(
    packet: &ipv4::Packet<'_>,
    source: Ipv4Addr,
    why: Unreachable,
) -> Option<Vec<u8>> {
    error(packet, source, why as u8, 0)
}

fn error(packet: &ipv4::Packet<'_>, source: Ipv4Addr, code: u8, mtu: u16) -> Option<Vec<u8>> {
    if !may_cause_error(packet) {
        return None;
    }
    let quoted = packet.bytes().get(..QUOTED_MAX).unwrap_or(packet.bytes());
    let mut message = vec![0; HEADER_LEN];
    message.splice(..2, [kind::DESTINATION_UNREACHABLE, code]);
    put(&mut message, field::NEXT_HOP_MTU, mtu);
    message.extend_from_slice(quoted);
    let checksum = Sum::default().bytes(&message).finish();
    put(&mut message, field::CHECKSUM, u16::from_be_bytes(checksum));
    let repr = Repr { source, destination: packet.source(), protocol: protocol::ICMP, ttl: TTL };
    let mut bytes = repr.emit(message.len())?.to_vec();
    bytes.append(&mut message);
    Some(bytes)
}

/// Whether an error may be sent about a packet (RFC 1812 section 4.3.2.7).
fn may_cause_error(packet: &ipv4::Packet<'_>) -> bool {
    let single_host = |a: Ipv4Addr| !(a.is_unspecified() || a.is_multicast() || a.is_broadcast());
    let is_icmp_error =
        packet.protocol() == protocol::ICMP && !is_query(packet.payload().first().copied());
    single_host(packet.source())
        && single_host(packet.destination())
        && !packet.source().is_loopback()
        && !packet.is_later_fragment()
        && !is_icmp_error
}

/// Whether an ICMP message of this type is a query or its reply. Everything else, types that are unknown and
/// messages without a type included, counts as an error.
fn is_query(kind: Option<u8>) -> bool {
    use kind::{
        ADDRESS_MASK_REPLY, ADDRESS_MASK_REQUEST, ECHO, ECHO_REPLY, INFORMATION_REPLY,
        INFORMATION_REQUEST, TIMESTAMP, TIMESTAMP_REPLY,
    };
    matches!(
        kind,
        Some(
            ECHO_REPLY
                | ECHO
                | TIMESTAMP
                | TIMESTAMP_REPLY
                | INFORMATION_REQUEST
                | INFORMATION_REPLY
                | ADDRESS_MASK_REQUEST
                | ADDRESS_MASK_REPLY
        )
    )
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
    fn an_error_quotes_the_packet() {
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
    fn fragmentation_needed_reports_the_mtu() {
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
    fn no_error_about_errors_and_multicast() {
        assert_eq!(unreachable_host(&packet([10, 1, 0, 1], protocol::ICMP, &[3, 1, 0, 0])), None);
        assert_eq!(unreachable_host(&packet([224, 0, 0, 1], protocol::UDP, &[])), None);
        assert_eq!(unreachable_host(&packet([0, 0, 0, 0], protocol::UDP, &[])), None);
        assert!(unreachable_host(&packet([10, 1, 0, 1], protocol::ICMP, &[8, 0, 0, 0])).is_some());
    }
}
