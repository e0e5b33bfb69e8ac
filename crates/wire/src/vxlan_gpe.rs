//! The generic protocol extension of VXLAN (draft-ietf-nvo3-vxlan-gpe-13).

use crate::Malformed;

/// Length of a header.
pub const HEADER_LEN: usize = 8;
/// UDP port (IANA).
pub const PORT: u16 = 4790;
/// Highest network identifier.
pub const VNI_MAX: u32 = 0xff_ffff;

const VERSION: u8 = 0x30;
const INSTANCE: u8 = 0x08;
const NEXT_PROTOCOL: u8 = 0x04;
const OAM: u8 = 0x01;

/// Next protocols (draft-ietf-nvo3-vxlan-gpe-13 section 3.2).
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

/// A header, and what follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    header: &'a [u8; HEADER_LEN],
    payload: &'a [u8],
}

impl<'a> Header<'a> {
    /// Reads a header, which must say what it carries (flag P) and for whom (flag I).
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let wrong = |field, offset, found: usize, expected| {
            Err(Malformed { field, offset, found: found as u64, expected })
        };
        let Some((header, payload)) = bytes.split_first_chunk::<HEADER_LEN>() else {
            return wrong("VXLAN-GPE length", 0, bytes.len(), "8 bytes or more");
        };
        if header[0] & VERSION != 0 {
            return wrong("VXLAN-GPE version", 0, usize::from((header[0] & VERSION) >> 4), "0");
        }
        if header[0] & (INSTANCE | NEXT_PROTOCOL) != INSTANCE | NEXT_PROTOCOL {
            return wrong("VXLAN-GPE flags", 0, header[0].into(), "the bits I and P");
        }
        Ok(Self { header, payload })
    }

    /// Network identifier, 24 bits.
    #[must_use]
    pub fn vni(&self) -> u32 {
        let [_, _, _, _, a, b, c, _] = *self.header;
        u32::from_be_bytes([0, a, b, c])
    }

    /// What the payload is.
    #[must_use]
    pub fn next_protocol(&self) -> u8 {
        self.header[3]
    }

    /// Whether it is a packet for operation and maintenance.
    #[must_use]
    pub fn oam(&self) -> bool {
        self.header[0] & OAM != 0
    }

    /// What follows the header.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// The values.
    #[must_use]
    pub fn repr(&self) -> Repr {
        Repr { vni: self.vni(), next_protocol: self.next_protocol(), oam: self.oam() }
    }
}

/// The values of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Network identifier: at most [`VNI_MAX`].
    pub vni: u32,
    /// What the payload is.
    pub next_protocol: u8,
    /// Whether it is a packet for operation and maintenance.
    pub oam: bool,
}

impl Repr {
    /// The header; none where the identifier is longer than 24 bits.
    #[must_use]
    pub fn emit(&self) -> Option<[u8; HEADER_LEN]> {
        let [0, a, b, c] = self.vni.to_be_bytes() else { return None };
        let flags = INSTANCE | NEXT_PROTOCOL | if self.oam { OAM } else { 0 };
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
        fn anything_can_be_read(bytes in prop::collection::vec(any::<u8>(), 0..20)) {
            let _ = Header::parse(&bytes);
        }
    }

    #[test]
    fn fields_are_where_section_3_puts_them() {
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
