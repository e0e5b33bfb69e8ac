//! IPv6 (RFC 8200 section 3).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------+-----------+---+---------------------------------------+
//! |Version|   DSCP    |ECN|              Flow Label               |   RFC 2474, RFC 6437
//! +-------+-----------+---+-------+---------------+---------------+
//! |        Payload Length         |  Next Header  |   Hop Limit   |
//! +-------------------------------+---------------+---------------+
//! |                   Source Address (16 bytes)                   |
//! +---------------------------------------------------------------+
//! |                 Destination Address (16 bytes)                |
//! +---------------------------------------------------------------+
//! ```

use std::net::Ipv6Addr;

use crate::{Malformed, bytes};

/// Length of the fixed header, bytes.
pub const HEADER_LEN: usize = 40;

/// Every link carries packets of so many bytes whole (RFC 8200 section 5).
pub const LEAST_MTU: u16 = 1280;

/// Byte ranges of the header's fields.
pub(crate) mod field {
    use std::ops::Range;

    pub(crate) const VERSION_CLASS_LABEL: Range<usize> = 0..4;
    pub(crate) const PAYLOAD_LENGTH: Range<usize> = 4..6;
    pub(crate) const NEXT_HEADER: usize = 6;
    pub(crate) const HOP_LIMIT: usize = 7;
    pub(crate) const SOURCE: Range<usize> = 8..24;
    pub(crate) const DESTINATION: Range<usize> = 24..40;
    /// Both addresses, as in a pseudo-header.
    pub(crate) const ADDRESSES: Range<usize> = 8..40;
}

/// The flow label within the first word.
const FLOW_LABEL_MASK: u32 = 0x000f_ffff;

/// Extension headers by their number (RFC 8200 section 4).
mod extension {
    pub(super) const HOP_BY_HOP: u8 = 0;
    pub(super) const ROUTING: u8 = 43;
    pub(super) const FRAGMENT: u8 = 44;
    pub(super) const DESTINATION: u8 = 60;
}

/// A view of a packet whose length field was checked. Extension headers are part of the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    bytes: &'a [u8],
    header: &'a [u8; HEADER_LEN],
    payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Parses a packet that fills `bytes` exactly. Jumbograms (RFC 2675) are refused.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        Self::parse_up_to(bytes, bytes.len())
    }

    /// Parses the start of a packet.
    pub(crate) fn parse_start(bytes: &'a [u8]) -> Result<Self, Malformed> {
        Self::parse_up_to(bytes, HEADER_LEN + usize::from(u16::MAX))
    }

    /// Parses a packet whose length by its header is between the length of `bytes` and `length_max`.
    fn parse_up_to(bytes: &'a [u8], length_max: usize) -> Result<Self, Malformed> {
        let wrong = |field, offset, found: usize, expected| {
            Err(Malformed { field, offset, found: found as u64, expected })
        };
        let Some((header, payload)) = bytes.split_first_chunk::<HEADER_LEN>() else {
            return wrong("IPv6 length", 0, bytes.len(), "40 bytes or more");
        };
        let packet = Self { bytes, header, payload };
        let version = header[0] >> 4;
        if version != 6 {
            return wrong("IP version", 0, usize::from(version), "6");
        }
        let len = usize::from(u16::from_be_bytes(bytes::field(header, field::PAYLOAD_LENGTH)));
        if !(bytes.len()..=length_max).contains(&(HEADER_LEN + len)) {
            return wrong("IPv6 payload length", 4, len, "the length of the payload");
        }
        Ok(packet)
    }

    /// Source address.
    #[must_use]
    pub fn source(&self) -> Ipv6Addr {
        bytes::field::<16>(self.header, field::SOURCE).into()
    }

    /// Destination address.
    #[must_use]
    pub fn destination(&self) -> Ipv6Addr {
        bytes::field::<16>(self.header, field::DESTINATION).into()
    }

    /// Differentiated services code point (RFC 2474).
    #[must_use]
    pub fn dscp(&self) -> u8 {
        #[allow(clippy::cast_possible_truncation)] // 6 bits
        let dscp = (self.first_word() >> 22 & 0x3f) as u8;
        dscp
    }

    /// Type of the header that follows the fixed one.
    #[must_use]
    pub fn next_header(&self) -> u8 {
        self.header[field::NEXT_HEADER]
    }

    /// Flow label, 20 bits (RFC 6437); 0 if the source set none.
    #[must_use]
    pub fn flow_label(&self) -> u32 {
        self.first_word() & FLOW_LABEL_MASK
    }

    fn first_word(&self) -> u32 {
        u32::from_be_bytes(bytes::field(self.header, field::VERSION_CLASS_LABEL))
    }

    /// Length of the packet by its header, bytes: more than [`bytes`](Self::bytes) if it was cut short.
    /// 65 535 if that is too large for the number.
    #[must_use]
    pub fn total_len(&self) -> u16 {
        #[allow(clippy::cast_possible_truncation)] // 40
        let header_len = HEADER_LEN as u16;
        u16::from_be_bytes(bytes::field(self.header, field::PAYLOAD_LENGTH))
            .saturating_add(header_len)
    }

    /// Protocol of the upper layer and what follows the last extension header (RFC 8200 section 4.1); of a
    /// later fragment, the protocol and nothing. Eight extension headers are passed at most.
    #[must_use]
    pub fn upper_layer(&self) -> (u8, &'a [u8]) {
        let (mut protocol, mut rest) = (self.next_header(), self.payload);
        for _ in 0..8 {
            let [next, len, offset, flags, ..] = *rest else { break };
            let passed = match protocol {
                extension::HOP_BY_HOP | extension::ROUTING | extension::DESTINATION => {
                    (usize::from(len) + 1) * 8
                }
                extension::FRAGMENT if u16::from_be_bytes([offset, flags]) >> 3 != 0 => {
                    return (next, &[]);
                }
                extension::FRAGMENT => 8,
                _ => break,
            };
            (protocol, rest) = (next, rest.get(passed..).unwrap_or_default());
        }
        (protocol, rest)
    }

    /// What follows the fixed header.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// The whole packet.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

/// The values of a fixed header with DSCP and flow label 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Source address.
    pub source: Ipv6Addr,
    /// Destination address.
    pub destination: Ipv6Addr,
    /// Type of the header that follows.
    pub next_header: u8,
    /// Hop limit.
    pub hop_limit: u8,
}

impl Repr {
    /// The header of a packet with `payload_len` bytes of payload, or `None` if these are more than 65535.
    #[must_use]
    pub fn emit(&self, payload_len: usize) -> Option<[u8; HEADER_LEN]> {
        let mut header = [0; HEADER_LEN];
        header[0] = 6 << 4;
        let length = u16::try_from(payload_len).ok()?;
        header[field::PAYLOAD_LENGTH].copy_from_slice(&length.to_be_bytes());
        header[field::NEXT_HEADER] = self.next_header;
        header[field::HOP_LIMIT] = self.hop_limit;
        header[field::SOURCE].copy_from_slice(&self.source.octets());
        header[field::DESTINATION].copy_from_slice(&self.destination.octets());
        Some(header)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sample(payload: usize) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_LEN + payload];
        bytes[0] = 0x60;
        bytes[4..6].copy_from_slice(&u16::try_from(payload).unwrap().to_be_bytes());
        bytes[23] = 1;
        bytes[39] = 2;
        bytes
    }

    #[test]
    fn fields_are_at_their_offsets() {
        let bytes = sample(8);
        let packet = Packet::parse(&bytes).unwrap();
        assert_eq!(packet.source(), Ipv6Addr::LOCALHOST);
        assert_eq!(packet.destination(), "::2".parse::<Ipv6Addr>().unwrap());
        assert_eq!(packet.payload().len(), 8);
    }

    proptest! {
        #[test]
        fn what_is_emitted_parses(ends: (u128, u128), next_header: u8, hop_limit: u8, len in 0..2000_usize) {
            let (source, destination) = (ends.0.into(), ends.1.into());
            let repr = Repr { source, destination, next_header, hop_limit };
            let mut bytes = repr.emit(len).unwrap().to_vec();
            bytes.resize(HEADER_LEN + len, 0);
            let packet = Packet::parse(&bytes).unwrap();
            prop_assert_eq!((packet.source(), packet.destination()), (source, destination));
            prop_assert_eq!((packet.next_header(), bytes[7]), (next_header, hop_limit));
        }

        #[test]
        fn lengths_must_agree(extra in 1..100_usize) {
            let mut bytes = sample(8);
            bytes.resize(bytes.len() + extra, 0);
            prop_assert_eq!(Packet::parse(&bytes).unwrap_err().field, "IPv6 payload length");
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = Packet::parse(&bytes);
        }
    }

    #[test]
    fn a_payload_has_65535_bytes_at_most() {
        let any = Ipv6Addr::UNSPECIFIED;
        let repr = Repr { source: any, destination: any, next_header: 59, hop_limit: 1 };
        assert!(repr.emit(65535).is_some());
        assert_eq!(repr.emit(65536), None);
    }
}
