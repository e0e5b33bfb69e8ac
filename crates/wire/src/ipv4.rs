//! IPv4 (RFC 791 section 3.1).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------+-------+-----------+---+-------------------------------+
//! |Version|  IHL  |   DSCP    |ECN|         Total Length          |   RFC 2474, RFC 3168
//! +-------+-------+-----------+---+-----+-------------------------+
//! |         Identification        |Flags|     Fragment Offset     |
//! +---------------+---------------+-----+-------------------------+
//! |  Time to Live |    Protocol   |        Header Checksum        |
//! +---------------+---------------+-------------------------------+
//! |                        Source Address                         |
//! +---------------------------------------------------------------+
//! |                      Destination Address                      |
//! +---------------------------------------------------------------+
//! |                      Options (IHL > 5)                        |
//! +---------------------------------------------------------------+
//! ```

use std::net::Ipv4Addr;

use crate::{
    Malformed, bytes,
    checksum::{Sum, update},
};

/// Length of a header without options, bytes.
pub const HEADER_LEN: usize = 20;

/// Version 4 and an IHL of 5 words: the first byte of a header without options.
pub(crate) const VERSION_IHL: u8 = 0x45;

/// Byte ranges of the header's fields.
pub(crate) mod field {
    use std::ops::Range;

    pub(crate) const VERSION_IHL: usize = 0;
    pub(crate) const DSCP_ECN: usize = 1;
    pub(crate) const TOTAL_LENGTH: Range<usize> = 2..4;
    pub(crate) const IDENTIFICATION: Range<usize> = 4..6;
    pub(crate) const FLAGS_OFFSET: Range<usize> = 6..8;
    pub(crate) const TTL: usize = 8;
    pub(crate) const PROTOCOL: usize = 9;
    pub(crate) const CHECKSUM: Range<usize> = 10..12;
    pub(crate) const SOURCE: Range<usize> = 12..16;
    pub(crate) const DESTINATION: Range<usize> = 16..20;
    /// Both addresses, as in a pseudo-header.
    pub(crate) const ADDRESSES: Range<usize> = 12..20;
}

/// Bits of the word that holds flags and fragment offset.
pub(crate) mod fragment {
    /// More fragments.
    pub(crate) const MF: u16 = 0x2000;
    /// Do not fragment.
    pub(crate) const DF: u16 = 0x4000;
    /// The fragment offset.
    pub(crate) const OFFSET: u16 = 0x1fff;
}

/// Protocol numbers (IANA).
pub mod protocol {
    /// ICMP.
    pub const ICMP: u8 = 1;
    /// IP in IP (RFC 2003).
    pub const IPIP: u8 = 4;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// IPv6 in IP (RFC 4213).
    pub const IPV6: u8 = 41;
}

/// ECN codepoints (RFC 3168 section 5).
pub mod ecn {
    /// Not ECN-capable transport (Not-ECT).
    pub const NOT_ECT: u8 = 0b00;
    /// Congestion experienced (CE).
    pub const CE: u8 = 0b11;
}

/// Sets the CE codepoint of a packet. Returns false, and changes nothing, if the packet is Not-ECT or has no
/// IPv4 header.
#[must_use]
pub fn mark_congestion(packet: &mut [u8]) -> bool {
    let Some(header) = packet.first_chunk_mut::<HEADER_LEN>() else { return false };
    if header[field::DSCP_ECN] & ecn::CE == ecn::NOT_ECT {
        return false;
    }
    let old = u16::from_be_bytes([header[field::VERSION_IHL], header[field::DSCP_ECN]]);
    header[field::DSCP_ECN] |= ecn::CE;
    let new = u16::from_be_bytes([header[field::VERSION_IHL], header[field::DSCP_ECN]]);
    let checksum = u16::from_be_bytes(bytes::field(header, field::CHECKSUM));
    header[field::CHECKSUM].copy_from_slice(&update(checksum, old, new).to_be_bytes());
    true
}

/// A view of a packet whose length fields were checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    bytes: &'a [u8],
    header: &'a [u8; HEADER_LEN],
    payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Parses a packet that fills `bytes` exactly.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        Self::parse_up_to(bytes, bytes.len())
    }

    /// Parses the start of a packet, as quoted in an ICMP error (RFC 792).
    pub fn parse_quoted(bytes: &'a [u8]) -> Result<Self, Malformed> {
        Self::parse_up_to(bytes, usize::from(u16::MAX))
    }

    /// Parses a packet whose total length is between the length of `bytes` and `length_max`.
    fn parse_up_to(bytes: &'a [u8], length_max: usize) -> Result<Self, Malformed> {
        let wrong = |field, offset, found: usize, expected| {
            Err(Malformed { field, offset, found: found as u64, expected })
        };
        let Some(header) = bytes.first_chunk::<HEADER_LEN>() else {
            return wrong("IPv4 length", 0, bytes.len(), "20 bytes or more");
        };
        let version_ihl = header[field::VERSION_IHL];
        if version_ihl >> 4 != 4 {
            return wrong("IP version", 0, usize::from(version_ihl >> 4), "4");
        }
        let total = usize::from(u16::from_be_bytes(bytes::field(header, field::TOTAL_LENGTH)));
        if !(bytes.len()..=length_max).contains(&total) {
            return wrong("IPv4 total length", 2, total, "the length of the packet");
        }
        let header_len = usize::from(version_ihl & 0xf) * 4;
        match bytes.get(header_len..) {
            Some(payload) if header_len >= HEADER_LEN => Ok(Self { bytes, header, payload }),
            _ => wrong("IPv4 header length", 0, header_len, "20 to the total length"),
        }
    }

    /// Source address.
    #[must_use]
    pub fn source(&self) -> Ipv4Addr {
        bytes::field::<4>(self.header, field::SOURCE).into()
    }

    /// Destination address.
    #[must_use]
    pub fn destination(&self) -> Ipv4Addr {
        bytes::field::<4>(self.header, field::DESTINATION).into()
    }

    /// Protocol number of the payload.
    #[must_use]
    pub fn protocol(&self) -> u8 {
        self.header[field::PROTOCOL]
    }

    /// Differentiated services code point (RFC 2474).
    #[must_use]
    pub fn dscp(&self) -> u8 {
        self.header[field::DSCP_ECN] >> 2
    }

    /// ECN codepoint, see [`ecn`].
    #[must_use]
    pub fn ecn(&self) -> u8 {
        self.header[field::DSCP_ECN] & 0b11
    }

    /// Whether the packet is a fragment, the first one included.
    #[must_use]
    pub fn is_fragment(&self) -> bool {
        self.flags_offset() & (fragment::MF | fragment::OFFSET) != 0
    }

    /// Whether the packet is a fragment other than the first, which lacks the start of the payload.
    #[must_use]
    pub fn is_later_fragment(&self) -> bool {
        self.flags_offset() & fragment::OFFSET != 0
    }

    fn flags_offset(&self) -> u16 {
        u16::from_be_bytes(bytes::field(self.header, field::FLAGS_OFFSET))
    }

    /// Whether routers must not fragment the packet (DF).
    #[must_use]
    pub fn must_not_be_fragmented(&self) -> bool {
        self.flags_offset() & fragment::DF != 0
    }

    /// Length of the packet by its header, bytes: more than [`bytes`](Self::bytes) if it was cut short.
    #[must_use]
    pub fn total_len(&self) -> u16 {
        u16::from_be_bytes(bytes::field(self.header, field::TOTAL_LENGTH))
    }

    /// Length of the header with its options, bytes.
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

/// The values of a header without options, of a packet that is no fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
    /// Protocol number of the payload.
    pub protocol: u8,
    /// Time to live.
    pub ttl: u8,
}

impl Repr {
    /// The header of a packet with `payload_len` bytes of payload, or `None` if the packet would be longer
    /// than 65535 bytes.
    #[must_use]
    pub fn emit(&self, payload_len: usize) -> Option<[u8; HEADER_LEN]> {
        let total = u16::try_from(HEADER_LEN + payload_len).ok()?;
        let mut header = [0; HEADER_LEN];
        header[field::VERSION_IHL] = VERSION_IHL;
        header[field::TOTAL_LENGTH].copy_from_slice(&total.to_be_bytes());
        header[field::TTL] = self.ttl;
        header[field::PROTOCOL] = self.protocol;
        header[field::SOURCE].copy_from_slice(&self.source.octets());
        header[field::DESTINATION].copy_from_slice(&self.destination.octets());
        let checksum = Sum::default().bytes(&header).finish();
        header[field::CHECKSUM].copy_from_slice(&checksum);
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
        fn only_ecn_capable_packets_are_marked(tos: u8, ttl: u8) {
            let any = Ipv4Addr::LOCALHOST;
            let repr = Repr { source: any, destination: any, protocol: 9, ttl };
            let mut header = repr.emit(0).unwrap();
            let sum = u16::from_be_bytes([header[10], header[11]]);
            header[10..12].copy_from_slice(&update(sum, 0x4500, 0x4500 | u16::from(tos)).to_be_bytes());
            header[1] = tos;
            let before = header;
            if mark_congestion(&mut header) {
                prop_assert_eq!(header[1], tos | ecn::CE);
            } else {
                prop_assert_eq!((header, tos & 3), (before, ecn::NOT_ECT));
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
    fn a_packet_has_65535_bytes_at_most() {
        let any = Ipv4Addr::LOCALHOST;
        let repr = Repr { source: any, destination: any, protocol: protocol::UDP, ttl: 1 };
        assert_eq!(repr.emit(65516), None);
    }
}
