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
}
