//! IPv6 (RFC 8200).

use std::net::Ipv6Addr;

use crate::Malformed;

/// Length of the fixed header.
pub const HEADER_LEN: usize = 40;

/// A packet whose lengths agree with each other. Extension headers belong to the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    bytes: &'a [u8],
    header: &'a [u8; HEADER_LEN],
    payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Reads a packet that fills `bytes` exactly. Jumbograms (RFC 2675) are refused.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let wrong = |field, offset, found: usize, expected| {
            Err(Malformed { field, offset, found: found as u64, expected })
        };
        let Some((header, payload)) = bytes.split_first_chunk::<HEADER_LEN>() else {
            return wrong("IPv6 length", 0, bytes.len(), "40 bytes or more");
        };
        if header[0] >> 4 != 6 {
            return wrong("IP version", 0, usize::from(header[0] >> 4), "6");
        }
        let len = usize::from(u16::from_be_bytes([header[4], header[5]]));
        if len != payload.len() {
            return wrong("IPv6 payload length", 4, len, "the length of the payload");
        }
        Ok(Self { bytes, header, payload })
    }

    /// Where it comes from.
    #[must_use]
    pub fn source(&self) -> Ipv6Addr {
        address(&self.header[8..24])
    }

    /// Where it goes.
    #[must_use]
    pub fn destination(&self) -> Ipv6Addr {
        address(&self.header[24..40])
    }

    /// Differentiated services code point (RFC 2474).
    #[must_use]
    pub fn dscp(&self) -> u8 {
        (self.header[0] & 0xf) << 2 | self.header[1] >> 6
    }

    /// Type of what follows the fixed header.
    #[must_use]
    pub fn next_header(&self) -> u8 {
        self.header[6]
    }

    /// Label of the flow, 20 bits (RFC 6437); 0 where the source gave none.
    #[must_use]
    pub fn flow_label(&self) -> u32 {
        u32::from_be_bytes([0, self.header[1] & 0xf, self.header[2], self.header[3]])
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

/// The values of a header without extensions of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Where it comes from.
    pub source: Ipv6Addr,
    /// Where it goes.
    pub destination: Ipv6Addr,
    /// Type of what follows.
    pub next_header: u8,
    /// Routers it may still pass.
    pub hop_limit: u8,
}

impl Repr {
    /// The header before `payload_len` bytes; None where that is more than 65535.
    #[must_use]
    pub fn emit(&self, payload_len: usize) -> Option<[u8; HEADER_LEN]> {
        let mut header = [0; HEADER_LEN];
        header[0] = 0x60;
        header[4..6].copy_from_slice(&u16::try_from(payload_len).ok()?.to_be_bytes());
        header[6] = self.next_header;
        header[7] = self.hop_limit;
        header[8..24].copy_from_slice(&self.source.octets());
        header[24..40].copy_from_slice(&self.destination.octets());
        Some(header)
    }
}

fn address(bytes: &[u8]) -> Ipv6Addr {
    bytes.first_chunk::<16>().map_or(Ipv6Addr::UNSPECIFIED, |octets| Ipv6Addr::from(*octets))
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
    fn fields_are_where_they_belong() {
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
