//! VXLAN-GPE, the generic protocol extension for VXLAN (draft-ietf-nvo3-vxlan-gpe-13 section 3).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+---+-+-+-+-+-------------------------------+---------------+
//! |R|R|Ver|I|P|B|O|           Reserved            | Next Protocol |
//! +-+-+---+-+-+-+-+-------------------------------+---------------+
//! |        VXLAN Network Identifier (VNI)         |   Reserved    |
//! +-----------------------------------------------+---------------+
//! ```

use crate::{Malformed, bytes};

/// Length of a header, bytes.
pub const HEADER_LEN: usize = 8;
/// UDP destination port (IANA).
pub const PORT: u16 = 4790;
/// Highest VNI: 24 bits.
pub const VNI_MAX: u32 = 0xff_ffff;

mod field {
    use std::ops::Range;

    pub(super) const FLAGS: usize = 0;
    pub(super) const NEXT_PROTOCOL: usize = 3;
    /// VNI and the reserved byte behind it.
    pub(super) const VNI_RESERVED: Range<usize> = 4..8;
}

/// Bits of the flags field.
mod flag {
    pub(super) const VERSION: u8 = 0x30;
    /// I: the VNI is valid.
    pub(super) const INSTANCE: u8 = 0x08;
    /// P: the next protocol field is valid.
    pub(super) const NEXT_PROTOCOL: u8 = 0x04;
    /// O: the payload is an OAM packet.
    pub(super) const OAM: u8 = 0x01;
}

/// Next protocols (draft-ietf-nvo3-vxlan-gpe-13 section 3).
pub mod next_protocol {
    /// IPv4.
    pub const IPV4: u8 = 1;
    /// IPv6.
    pub const IPV6: u8 = 2;
    /// Ethernet.
    pub const ETHERNET: u8 = 3;
    /// Network service header.
    pub const NSH: u8 = 4;
}

/// A view of a header and its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    header: &'a [u8; HEADER_LEN],
    payload: &'a [u8],
}

impl<'a> Header<'a> {
    /// Parses a header, which must have flags I and P set.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let wrong = |field, offset, found: usize, expected| {
            Err(Malformed { field, offset, found: found as u64, expected })
        };
        let Some((header, payload)) = bytes.split_first_chunk::<HEADER_LEN>() else {
            return wrong("VXLAN-GPE length", 0, bytes.len(), "8 bytes or more");
        };
        let flags = header[field::FLAGS];
        if flags & flag::VERSION != 0 {
            return wrong("VXLAN-GPE version", 0, usize::from((flags & flag::VERSION) >> 4), "0");
        }
        let required = flag::INSTANCE | flag::NEXT_PROTOCOL;
        if flags & required != required {
            return wrong("VXLAN-GPE flags", 0, flags.into(), "the bits I and P");
        }
        Ok(Self { header, payload })
    }

    /// VXLAN network identifier, 24 bits.
    #[must_use]
    pub fn vni(&self) -> u32 {
        u32::from_be_bytes(bytes::field(self.header, field::VNI_RESERVED)) >> 8
    }

    /// Protocol of the payload, see [`next_protocol`].
    #[must_use]
    pub fn next_protocol(&self) -> u8 {
        self.header[field::NEXT_PROTOCOL]
    }

    /// Whether the payload is an OAM packet.
    #[must_use]
    pub fn oam(&self) -> bool {
        self.header[field::FLAGS] & flag::OAM != 0
    }

    /// What follows the header.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// The values of the header.
    #[must_use]
    pub fn repr(&self) -> Repr {
        Repr { vni: self.vni(), next_protocol: self.next_protocol(), oam: self.oam() }
    }
}

/// The values of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// VXLAN network identifier, at most [`VNI_MAX`].
    pub vni: u32,
    /// Protocol of the payload.
    pub next_protocol: u8,
    /// Whether the payload is an OAM packet.
    pub oam: bool,
}

impl Repr {
    /// The header, or `None` if the VNI has more than 24 bits.
    #[must_use]
    pub fn emit(&self) -> Option<[u8; HEADER_LEN]> {
        let [0, a, b, c] = self.vni.to_be_bytes() else { return None };
        let oam = if self.oam { flag::OAM } else { 0 };
        let flags = flag::INSTANCE | flag::NEXT_PROTOCOL | oam;
        Some([flags, 0, 0, self.next_protocol, a, b, c, 0])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_emitted_parses(vni in 0..=VNI_MAX, next_protocol: u8, oam: bool, payload: Vec<u8>) {
            let repr = Repr { vni, next_protocol, oam };
            let bytes = [&repr.emit().unwrap()[..], &payload].concat();
            let header = Header::parse(&bytes).unwrap();
            prop_assert_eq!((header.repr(), header.payload()), (repr, &payload[..]));
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..20)) {
            let _ = Header::parse(&bytes);
        }
    }

    #[test]
    fn fields_are_at_the_offsets_of_section_3() {
        let repr = Repr { vni: 0x12_3456, next_protocol: next_protocol::NSH, oam: false };
        let bytes = repr.emit().unwrap();
        assert_eq!(bytes, [0x0c, 0, 0, 4, 0x12, 0x34, 0x56, 0]);
        assert_eq!(Repr { vni: 1 << 24, ..repr }.emit(), None);
    }

    #[test]
    fn each_malformed_field_is_named() {
        for (flags, field) in
            [(0x1c, "VXLAN-GPE version"), (0, "VXLAN-GPE flags"), (8, "VXLAN-GPE flags")]
        {
            let error = Header::parse(&[flags, 0, 0, 4, 0, 0, 1, 0]).unwrap_err();
            assert_eq!(error.field, field);
        }
        assert_eq!(Header::parse(&[0x0c; 7]).unwrap_err().field, "VXLAN-GPE length");
    }
}
