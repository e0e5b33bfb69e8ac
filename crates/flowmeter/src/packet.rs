//! What the features need of a packet.

use std::net::IpAddr;

use hawser_wire::{
    Malformed, ip,
    ipv4::protocol::{TCP, UDP},
    tcp,
};

use crate::tuple::Tuple;

/// A packet, reduced to what flow features need of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Addresses, ports and protocol.
    pub tuple: Tuple,
    /// Length of the IP packet, bytes.
    pub length: u16,
    /// Length of the headers, bytes: IP and TCP. For UDP, IP and the *length field* of UDP, payload
    /// included, as flowtbag counts it.
    pub header_length: u16,
    /// Differentiated services code point.
    pub dscp: u8,
    /// Flags of TCP (byte 13 of its header); 0 for other protocols.
    pub flags: u8,
}

/// Offset of the length field in a UDP header, bytes (RFC 768).
const UDP_LENGTH: usize = 4;

impl Packet {
    /// Reads an IP packet, which may be cut short or padded. Later fragments and protocols other than TCP
    /// and UDP have ports 0.
    ///
    /// # Errors
    ///
    /// The IP header violates its format. A TCP or UDP header that is cut short counts as no header.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let packet = ip::Packet::parse_captured(bytes)?;
        let (protocol, payload) = match &packet {
            ip::Packet::V4(packet) if packet.is_later_fragment() => (packet.protocol(), &[][..]),
            ip::Packet::V4(packet) => (packet.protocol(), packet.payload()),
            ip::Packet::V6(packet) => packet.upper_layer(),
        };
        let transport = Transport::read(protocol, payload);
        Ok(Self {
            tuple: transport.tuple(packet.source(), packet.destination(), protocol),
            length: packet.total_len(),
            header_length: ip_header(&packet, payload).saturating_add(transport.header_length),
            dscp: packet.dscp(),
            flags: transport.flags,
        })
    }
}

/// Length of the IP header with options or extension headers, bytes.
fn ip_header(packet: &ip::Packet<'_>, payload: &[u8]) -> u16 {
    let length = match packet {
        ip::Packet::V4(packet) => packet.header_len(),
        ip::Packet::V6(packet) => packet.bytes().len() - payload.len(),
    };
    u16::try_from(length).unwrap_or(u16::MAX)
}

/// What the header after IP says.
#[derive(Default)]
struct Transport {
    ports: (u16, u16),
    header_length: u16,
    flags: u8,
}

impl Transport {
    fn read(protocol: u8, payload: &[u8]) -> Self {
        match protocol {
            TCP => Self::tcp(payload),
            UDP => Self::udp(payload),
            _ => None,
        }
        .unwrap_or_default()
    }

    fn tcp(payload: &[u8]) -> Option<Self> {
        let header_length = u16::try_from(tcp::header_len(payload)?).ok()?;
        Some(Self { ports: ports(payload)?, header_length, flags: tcp::flags(payload)? })
    }

    fn udp(payload: &[u8]) -> Option<Self> {
        let header_length = u16::from_be_bytes(*payload.get(UDP_LENGTH..)?.first_chunk()?);
        Some(Self { ports: ports(payload)?, header_length, flags: 0 })
    }

    fn tuple(&self, source: IpAddr, destination: IpAddr, protocol: u8) -> Tuple {
        let (source_port, destination_port) = self.ports;
        Tuple { source, destination, source_port, destination_port, protocol }
    }
}

/// Source and destination port, where TCP and UDP have them.
fn ports(payload: &[u8]) -> Option<(u16, u16)> {
    let [a, b, c, d] = *payload.first_chunk()?;
    Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}
