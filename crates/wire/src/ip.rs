//! An IP packet of either version.

use std::net::IpAddr;

use crate::{Malformed, ipv4, ipv6};

/// A view of a packet whose length fields were checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// Version 4.
    V4(ipv4::Packet<'a>),
    /// Version 6.
    V6(ipv6::Packet<'a>),
}

impl<'a> Packet<'a> {
    /// Parses a packet that fills `bytes` exactly.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        match bytes.first().map(|first| first >> 4) {
            Some(4) => ipv4::Packet::parse(bytes).map(Self::V4),
            Some(6) => ipv6::Packet::parse(bytes).map(Self::V6),
            found => {
                let found = u64::from(found.unwrap_or(0));
                Err(Malformed { field: "IP version", offset: 0, found, expected: "4 or 6" })
            }
        }
    }

    /// Parses the start of a packet, as quoted in an ICMP error.
    pub fn parse_quoted(bytes: &'a [u8]) -> Result<Self, Malformed> {
        match bytes.first().map(|first| first >> 4) {
            Some(4) => ipv4::Packet::parse_quoted(bytes).map(Self::V4),
            Some(6) => ipv6::Packet::parse_start(bytes).map(Self::V6),
            _ => Self::parse(bytes),
        }
    }

    /// Parses a packet as captures have it: cut short, or padded to the least length of a frame.
    pub fn parse_captured(bytes: &'a [u8]) -> Result<Self, Malformed> {
        Self::parse_quoted(match bytes.first().map(|first| first >> 4) {
            Some(4) => unpadded(bytes, 2, 0),
            Some(6) => unpadded(bytes, 4, ipv6::HEADER_LEN),
            _ => bytes,
        })
    }

    /// Length of the packet by its header, bytes: more than [`bytes`](Self::bytes) if it was cut short.
    #[must_use]
    pub fn total_len(&self) -> u16 {
        match self {
            Self::V4(packet) => packet.total_len(),
            Self::V6(packet) => packet.total_len(),
        }
    }

    /// Source address.
    #[must_use]
    pub fn source(&self) -> IpAddr {
        match self {
            Self::V4(packet) => packet.source().into(),
            Self::V6(packet) => packet.source().into(),
        }
    }

    /// Destination address.
    #[must_use]
    pub fn destination(&self) -> IpAddr {
        match self {
            Self::V4(packet) => packet.destination().into(),
            Self::V6(packet) => packet.destination().into(),
        }
    }

    /// Protocol number of what follows the header; in IPv6 it may be that of an extension header.
    #[must_use]
    pub fn protocol(&self) -> u8 {
        match self {
            Self::V4(packet) => packet.protocol(),
            Self::V6(packet) => packet.next_header(),
        }
    }

    /// Differentiated services code point (RFC 2474).
    #[must_use]
    pub fn dscp(&self) -> u8 {
        match self {
            Self::V4(packet) => packet.dscp(),
            Self::V6(packet) => packet.dscp(),
        }
    }

    /// What follows the header; in IPv6 it may begin with an extension header.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        match self {
            Self::V4(packet) => packet.payload(),
            Self::V6(packet) => packet.payload(),
        }
    }

    /// The whole packet.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        match self {
            Self::V4(packet) => packet.bytes(),
            Self::V6(packet) => packet.bytes(),
        }
    }
}

/// `bytes` without what follows the packet, whose length stands at offset `at` and lacks `less`.
fn unpadded(bytes: &[u8], at: usize, less: usize) -> &[u8] {
    let length =
        bytes.get(at..).and_then(|rest| rest.first_chunk().copied()).map(u16::from_be_bytes);
    let length = length.map_or(bytes.len(), |length| usize::from(length) + less);
    bytes.get(..length).unwrap_or(bytes)
}
