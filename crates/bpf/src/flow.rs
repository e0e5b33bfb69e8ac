//! The flow of a packet. Mirrored in `bpf/flow.h`.

#![allow(unsafe_code)] // plain data for the kernel's maps

use std::net::{IpAddr, Ipv6Addr};

/// Addresses, ports and protocol, or a mask of these. IPv4 addresses are mapped to IPv6 (RFC 4291 section 2.5.5.2).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Flow {
    source: [u8; 16],
    destination: [u8; 16],
    source_port: [u8; 2],
    destination_port: [u8; 2],
    protocol: u8,
    dscp: u8,
    port: [u8; 2],
}

const _: () = assert!(size_of::<Flow>() == 40);

// SAFETY: `repr(C)` structure of bytes: no padding, and every bit pattern is a value.
unsafe impl aya::Pod for Flow {}

/// The fields of a [`Flow`] as numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// Source address.
    pub source: u128,
    /// Destination address.
    pub destination: u128,
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Protocol.
    pub protocol: u8,
    /// Differentiated services code point.
    pub dscp: u8,
    /// Number of the ingress port.
    pub port: u16,
}

impl From<Fields> for Flow {
    fn from(fields: Fields) -> Self {
        Self {
            source: fields.source.to_be_bytes(),
            destination: fields.destination.to_be_bytes(),
            source_port: fields.source_port.to_be_bytes(),
            destination_port: fields.destination_port.to_be_bytes(),
            protocol: fields.protocol,
            dscp: fields.dscp,
            port: fields.port.to_ne_bytes(),
        }
    }
}

impl Flow {
    /// Reads a flow from its representation in memory.
    pub(crate) fn from_bytes(bytes: &[u8; 40]) -> Self {
        let part = |from: usize, to: usize| bytes.get(from..to).unwrap_or_default();
        let byte = |at: usize| bytes.get(at).copied().unwrap_or_default();
        Self {
            source: part(0, 16).try_into().unwrap_or_default(),
            destination: part(16, 32).try_into().unwrap_or_default(),
            source_port: part(32, 34).try_into().unwrap_or_default(),
            destination_port: part(34, 36).try_into().unwrap_or_default(),
            protocol: byte(36),
            dscp: byte(37),
            port: part(38, 40).try_into().unwrap_or_default(),
        }
    }

    /// Source address; `None` if the packet is not IP.
    #[must_use]
    pub fn source(&self) -> Option<IpAddr> {
        address(self.source)
    }

    /// Destination address.
    #[must_use]
    pub fn destination(&self) -> Option<IpAddr> {
        address(self.destination)
    }

    /// Source and destination port; 0 if the packet has none.
    #[must_use]
    pub fn ports(&self) -> (u16, u16) {
        (u16::from_be_bytes(self.source_port), u16::from_be_bytes(self.destination_port))
    }

    /// Protocol number.
    #[must_use]
    pub fn protocol(&self) -> u8 {
        self.protocol
    }

    /// Differentiated services code point.
    #[must_use]
    pub fn dscp(&self) -> u8 {
        self.dscp
    }

    /// The bits that are set in `mask`.
    #[must_use]
    pub fn masked(&self, mask: &Self) -> Self {
        let (fields, mask) = (self.fields(), mask.fields());
        Fields {
            source: fields.source & mask.source,
            destination: fields.destination & mask.destination,
            source_port: fields.source_port & mask.source_port,
            destination_port: fields.destination_port & mask.destination_port,
            protocol: fields.protocol & mask.protocol,
            dscp: fields.dscp & mask.dscp,
            port: fields.port & mask.port,
        }
        .into()
    }

    fn fields(&self) -> Fields {
        let (source_port, destination_port) = self.ports();
        Fields {
            source: u128::from_be_bytes(self.source),
            destination: u128::from_be_bytes(self.destination),
            source_port,
            destination_port,
            protocol: self.protocol,
            dscp: self.dscp,
            port: u16::from_ne_bytes(self.port),
        }
    }
}

/// An address as represented in a flow.
#[must_use]
pub fn mapped(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn address(octets: [u8; 16]) -> Option<IpAddr> {
    let address = Ipv6Addr::from(octets);
    (octets != [0; 16]).then(|| address.to_ipv4_mapped().map_or(address.into(), IpAddr::V4))
}
