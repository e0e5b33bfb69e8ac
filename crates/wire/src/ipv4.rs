//! IPv4 (RFC 791).

use std::net::Ipv4Addr;

use crate::{
    Malformed,
    checksum::{Sum, update},
};

/// Length of a header without options.
pub const HEADER_LEN: usize = 20;

/// Protocol numbers (IANA) that are looked at.
pub mod protocol {
    /// ICMP.
    pub const ICMP: u8 = 1;
    /// IP in IP (RFC 2003).
    pub const IPIP: u8 = 4;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
}

/// Codepoints of explicit congestion notification (RFC 3168 section 5) that are looked at.
pub mod ecn {
    /// The sender does not know of it.
    pub const NONE: u8 = 0b00;
    /// A router met congestion.
    pub const CONGESTION: u8 = 0b11;
}

/// Writes into a packet's header that a router met congestion; false, and nothing is changed, where the
/// sender does not know of that, or there is no header.
#[must_use]
pub fn mark_congestion(packet: &mut [u8]) -> bool {
    let Some(header) = packet.first_chunk_mut::<HEADER_LEN>() else { return false };
    if header[1] & ecn::CONGESTION == ecn::NONE {
        return false;
    }
    let old = u16::from_be_bytes([header[0], header[1]]);
    header[1] |= ecn::CONGESTION;
    let new = u16::from_be_bytes([header[0], header[1]]);
    let checksum = update(u16::from_be_bytes([header[10], header[11]]), old, new);
    [header[10], header[11]] = checksum.to_be_bytes();
    true
}

/// A packet whose lengths agree with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    bytes: &'a [u8],
    header: &'a [u8; HEADER_LEN],
    payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Reads a packet that fills `bytes` exactly.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        Self::read(bytes, bytes.len())
    }

    /// Reads the beginning of a packet, as an ICMP error quotes it (RFC 792).
    pub fn parse_quoted(bytes: &'a [u8]) -> Result<Self, Malformed> {
        Self::read(bytes, usize::from(u16::MAX))
    }

    fn read(bytes: &'a [u8], most: usize) -> Result<Self, Malformed> {
        let wrong = |field, offset, found: usize, expected| {
            Err(Malformed { field, offset, found: found as u64, expected })
        };
        let Some(header) = bytes.first_chunk::<HEADER_LEN>() else {
            return wrong("IPv4 length", 0, bytes.len(), "20 bytes or more");
        };
        if header[0] >> 4 != 4 {
            return wrong("IP version", 0, usize::from(header[0] >> 4), "4");
        }
        let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
        if !(bytes.len()..=most).contains(&total) {
            return wrong("IPv4 total length", 2, total, "the length of the packet");
        }
        let header_len = usize::from(header[0] & 0xf) * 4;
        match bytes.get(header_len..) {
            Some(payload) if header_len >= HEADER_LEN => Ok(Self { bytes, header, payload }),
            _ => wrong("IPv4 header length", 0, header_len, "20 to the total length"),
        }
    }

    /// Where it comes from.
    #[must_use]
    pub fn source(&self) -> Ipv4Addr {
        let h = self.header;
        Ipv4Addr::new(h[12], h[13], h[14], h[15])
    }

    /// Where it goes.
    #[must_use]
    pub fn destination(&self) -> Ipv4Addr {
        let h = self.header;
        Ipv4Addr::new(h[16], h[17], h[18], h[19])
    }

    /// Protocol of the payload.
    #[must_use]
    pub fn protocol(&self) -> u8 {
        self.header[9]
    }

    /// Differentiated services code point (RFC 2474).
    #[must_use]
    pub fn dscp(&self) -> u8 {
        self.header[1] >> 2
    }

    /// Explicit congestion notification (RFC 3168 section 5), of [`ecn`].
    #[must_use]
    pub fn ecn(&self) -> u8 {
        self.header[1] & 0b11
    }

    /// Whether it is a part of a fragmented packet.
    #[must_use]
    pub fn is_fragment(&self) -> bool {
        self.header[6] & 0x3f != 0 || self.header[7] != 0
    }

    /// Whether it is a fragment without the start of the payload.
    #[must_use]
    pub fn is_later_fragment(&self) -> bool {
        self.header[6] & 0x1f != 0 || self.header[7] != 0
    }

    /// Length of the header with its options.
    #[must_use]
    pub fn header_len(&self) -> usize {
        self.bytes.len() - self.payload.len()
    }

    /// What follows the header and its options.
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

/// The values of a header without options, of a packet that is not fragmented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Where it comes from.
    pub source: Ipv4Addr,
    /// Where it goes.
    pub destination: Ipv4Addr,
    /// Protocol of the payload.
    pub protocol: u8,
    /// Routers it may still pass.
    pub ttl: u8,
}

impl Repr {
    /// The header before `payload_len` bytes; None where the packet would be longer than 65535.
    #[must_use]
    pub fn emit(&self, payload_len: usize) -> Option<[u8; HEADER_LEN]> {
        let total = u16::try_from(HEADER_LEN + payload_len).ok()?;
        let mut header = [0; HEADER_LEN];
        header[0] = 0x45;
        header[2..4].copy_from_slice(&total.to_be_bytes());
        header[8] = self.ttl;
        header[9] = self.protocol;
        header[12..16].copy_from_slice(&self.source.octets());
        header[16..20].copy_from_slice(&self.destination.octets());
        let checksum = Sum::default().bytes(&header).finish();
        header[10..12].copy_from_slice(&checksum);
        Some(header)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_emitted_parses(source: u32, destination: u32, protocol: u8, ttl: u8, len in 0..1500_usize) {
            let repr = Repr { source: source.into(), destination: destination.into(), protocol, ttl };
            let mut bytes = repr.emit(len).unwrap().to_vec();
            prop_assert_eq!(Sum::default().bytes(&bytes).finish(), [0, 0]);
            bytes.resize(HEADER_LEN + len, 0);
            let packet = Packet::parse(&bytes).unwrap();
            prop_assert_eq!(packet.source(), repr.source);
            prop_assert_eq!(packet.destination(), repr.destination);
            prop_assert_eq!(packet.protocol(), protocol);
            prop_assert_eq!(packet.payload().len(), len);
            prop_assert!(!packet.is_fragment());
        }

        #[test]
        fn congestion_is_marked_where_it_may_be(tos: u8, ttl: u8) {
            let any = Ipv4Addr::LOCALHOST;
            let repr = Repr { source: any, destination: any, protocol: 9, ttl };
            let mut header = repr.emit(0).unwrap();
            let sum = u16::from_be_bytes([header[10], header[11]]);
            header[10..12].copy_from_slice(&update(sum, 0x4500, 0x4500 | u16::from(tos)).to_be_bytes());
            header[1] = tos;
            let before = header;
            if mark_congestion(&mut header) {
                prop_assert_eq!(header[1], tos | ecn::CONGESTION);
            } else {
                prop_assert_eq!((header, tos & 3), (before, ecn::NONE));
            }
            prop_assert_eq!(Sum::default().bytes(&header).finish(), [0, 0]);
            prop_assert_eq!(Packet::parse(&header).unwrap().ecn(), header[1] & 3);
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(packet) = Packet::parse(&bytes) {
                prop_assert!(packet.payload().len() + HEADER_LEN <= bytes.len());
            }
        }
    }

    #[test]
    fn errors_name_the_field() {
        let mut bytes = [0; 20];
        bytes[0] = 0x44;
        bytes[3] = 20;
        let error = Packet::parse(&bytes).unwrap_err();
        assert_eq!(
            error.to_string(),
            "IPv4 header length at byte 0: found 16, expected 20 to the total length"
        );
    }

    #[test]
    fn nothing_longer_than_the_format_allows() {
        let any = Ipv4Addr::LOCALHOST;
        let repr = Repr { source: any, destination: any, protocol: protocol::UDP, ttl: 1 };
        assert_eq!(repr.emit(65516), None);
    }
}
