//! The Segment Routing Header (RFC 8754 section 2), with its HMAC TLV.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+---------------+---------------+
//! | Next Header   |  Hdr Ext Len  | Routing Type  | Segments Left |
//! +---------------+---------------+---------------+---------------+
//! |  Last Entry   |     Flags     |              Tag              |
//! +---------------+---------------+-------------------------------+
//! |  Segment List[0] (16 bytes): last segment of the path         |
//! +---------------------------------------------------------------+
//! |  ...                                                          |
//! +---------------------------------------------------------------+
//! |  Segment List[Last Entry] (16 bytes): first segment           |
//! +---------------------------------------------------------------+
//! |  TLVs (variable)                                              |
//! +---------------------------------------------------------------+
//!
//! +---------------+---------------+-+-----------------------------+
//! |   Type (5)    |    Length     |D|          RESERVED           |   section 2.1.2
//! +---------------+---------------+-+-----------------------------+
//! |                          HMAC Key ID                          |
//! +---------------------------------------------------------------+
//! |                  HMAC (8, 16, 24 or 32 bytes)                 |
//! +---------------------------------------------------------------+
//! ```
//!
//! Hdr Ext Len counts 8 octets, without the first 8.

use std::net::Ipv6Addr;

use crate::{Malformed, bytes};

/// Next header number of routing headers (RFC 8200 section 4.4).
pub const NEXT_HEADER: u8 = 43;
/// Segments that fit into a list: Hdr Ext Len has 8 bits and counts 8 octets.
pub const SEGMENTS_MAX: usize = 127;
/// Longest HMAC, bytes (section 2.1.2).
pub const HMAC_MAX: usize = 32;

/// Routing type of segment routing.
const ROUTING_TYPE: u8 = 4;
/// Length of the fields before the segment list, bytes.
const FIXED_LEN: usize = 8;
const SEGMENT_LEN: usize = 16;

mod field {
    use std::ops::Range;

    pub(super) const NEXT_HEADER: usize = 0;
    pub(super) const HDR_EXT_LEN: usize = 1;
    pub(super) const ROUTING_TYPE: usize = 2;
    pub(super) const SEGMENTS_LEFT: usize = 3;
    pub(super) const LAST_ENTRY: usize = 4;
    pub(super) const FLAGS: usize = 5;
    pub(super) const TAG: Range<usize> = 6..8;
}

/// TLV types (section 2.1).
mod tlv_type {
    pub(super) const PAD1: u8 = 0;
    pub(super) const PADN: u8 = 4;
    pub(super) const HMAC: u8 = 5;
}

/// Length of the fields before the HMAC in its TLV: D bit, reserved bits, key ID.
const HMAC_FIXED_LEN: usize = 6;
/// The D bit: verification of the destination address is disabled.
const HMAC_D: u8 = 0x80;

/// A view of a header and its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    fixed: &'a [u8; FIXED_LEN],
    segments: &'a [u8],
    tlvs: &'a [u8],
    payload: &'a [u8],
}

impl<'a> Header<'a> {
    /// Parses a header with at least one segment.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        use field::{HDR_EXT_LEN, LAST_ENTRY, ROUTING_TYPE, SEGMENTS_LEFT};
        let Some((fixed, rest)) = bytes.split_first_chunk::<FIXED_LEN>() else {
            return wrong("SRH length", 0, bytes.len(), "8 bytes or more");
        };
        let routing_type = fixed[ROUTING_TYPE];
        if routing_type != self::ROUTING_TYPE {
            return wrong("routing type", ROUTING_TYPE, routing_type.into(), "4");
        }
        let ext_len = usize::from(fixed[HDR_EXT_LEN]);
        let Some((body, payload)) = rest.split_at_checked(ext_len * 8) else {
            return wrong("SRH header length", HDR_EXT_LEN, ext_len, "at most the bytes behind it");
        };
        let last_entry = usize::from(fixed[LAST_ENTRY]);
        let list_len = (last_entry + 1) * SEGMENT_LEN;
        let Some((segments, tlvs)) = body.split_at_checked(list_len) else {
            return wrong("SRH last entry", LAST_ENTRY, last_entry, "an entry within the header");
        };
        // Section 4.3.1.1: a reduced list (section 4.1.1) lacks the first segment, so Segments Left may be
        // Last Entry + 1.
        let segments_left = usize::from(fixed[SEGMENTS_LEFT]);
        if segments_left > last_entry + 1 {
            let expected = "at most one more than the last entry";
            return wrong("SRH segments left", SEGMENTS_LEFT, segments_left, expected);
        }
        check_tlvs(tlvs, FIXED_LEN + list_len)?;
        Ok(Self { fixed, segments, tlvs, payload })
    }

    /// Protocol number of the payload.
    #[must_use]
    pub fn next_header(&self) -> u8 {
        self.fixed[field::NEXT_HEADER]
    }

    /// Segments still to be visited.
    #[must_use]
    pub fn segments_left(&self) -> u8 {
        self.fixed[field::SEGMENTS_LEFT]
    }

    /// Flags; RFC 8754 assigns none.
    #[must_use]
    pub fn flags(&self) -> u8 {
        self.fixed[field::FLAGS]
    }

    /// Tag: marks packets of one class.
    #[must_use]
    pub fn tag(&self) -> u16 {
        u16::from_be_bytes(bytes::field(self.fixed, field::TAG))
    }

    /// The segments in the order of the path, which is the reverse of the list's.
    pub fn segments(&self) -> impl Iterator<Item = Ipv6Addr> + use<'a> {
        self.segments.rchunks_exact(SEGMENT_LEN).map(address)
    }

    /// The next segment, which becomes the destination address (section 4.3.1.1). `None` at the last segment.
    #[must_use]
    pub fn next_segment(&self) -> Option<Ipv6Addr> {
        let index = usize::from(self.segments_left().checked_sub(1)?);
        self.segments.chunks_exact(SEGMENT_LEN).nth(index).map(address)
    }

    /// The TLVs, without padding.
    pub fn tlvs(&self) -> impl Iterator<Item = Tlv<'a>> + use<'a> {
        Tlvs(self.tlvs)
    }

    /// The HMAC TLV, of which there is at most one (section 2.1.2).
    #[must_use]
    pub fn hmac(&self) -> Option<Hmac> {
        self.tlvs().find(|tlv| tlv.kind == tlv_type::HMAC).and_then(|tlv| Hmac::parse(tlv.data))
    }

    /// The text that the HMAC of a packet from `source` signs (section 2.1.2.1): source address, Last Entry,
    /// flags, key ID, segment list.
    #[must_use]
    pub fn signed_text(&self, source: Ipv6Addr, key_id: u32) -> Vec<u8> {
        let mut text = source.octets().to_vec();
        text.extend([self.fixed[field::LAST_ENTRY], self.flags()]);
        text.extend(key_id.to_be_bytes());
        text.extend(self.segments);
        text
    }

    /// What follows the header.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// The values of the header. TLVs other than the HMAC are left out.
    #[must_use]
    pub fn repr(&self) -> Repr {
        Repr {
            next_header: self.next_header(),
            segments_left: self.segments_left(),
            flags: self.flags(),
            tag: self.tag(),
            segments: self.segments().collect(),
            hmac: self.hmac(),
        }
    }
}

fn wrong<T>(
    field: &'static str,
    offset: usize,
    found: usize,
    expected: &'static str,
) -> Result<T, Malformed> {
    Err(Malformed { field, offset, found: found as u64, expected })
}

fn address(bytes: &[u8]) -> Ipv6Addr {
    bytes.first_chunk::<16>().map_or(Ipv6Addr::UNSPECIFIED, |octets| Ipv6Addr::from(*octets))
}

/// A view of one TLV (section 2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tlv<'a> {
    /// Type.
    pub kind: u8,
    /// Value.
    pub data: &'a [u8],
}

struct Tlvs<'a>(&'a [u8]);

impl<'a> Iterator for Tlvs<'a> {
    type Item = Tlv<'a>;

    fn next(&mut self) -> Option<Tlv<'a>> {
        loop {
            let (tlv, rest) = split_first(self.0)?;
            self.0 = rest;
            if !matches!(tlv.kind, tlv_type::PAD1 | tlv_type::PADN) {
                return Some(tlv);
            }
        }
    }
}

/// Splits off the first TLV. Pad1 has no length (section 2.1.1.1).
fn split_first(bytes: &[u8]) -> Option<(Tlv<'_>, &[u8])> {
    match bytes {
        [tlv_type::PAD1, rest @ ..] => Some((Tlv { kind: tlv_type::PAD1, data: &[] }, rest)),
        [kind, length, rest @ ..] => {
            let (data, rest) = rest.split_at_checked(usize::from(*length))?;
            Some((Tlv { kind: *kind, data }, rest))
        }
        _ => None,
    }
}

fn check_tlvs(bytes: &[u8], first: usize) -> Result<(), Malformed> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let offset = first + bytes.len() - rest.len();
        let Some((tlv, after)) = split_first(rest) else {
            let found = usize::from(rest.get(1).copied().unwrap_or_default());
            return wrong("SRH TLV length", offset + 1, found, "at most what is left");
        };
        if tlv.kind == tlv_type::HMAC && Hmac::parse(tlv.data).is_none() {
            return wrong("SRH HMAC length", offset + 1, tlv.data.len(), "14, 22, 30 or 38");
        }
        rest = after;
    }
    Ok(())
}

/// The values of an HMAC TLV (section 2.1.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hmac {
    /// D bit: verification of the destination address is disabled.
    pub any_destination: bool,
    /// Key ID: identifies key and algorithm.
    pub key_id: u32,
    /// The HMAC, a multiple of 8 bytes, at most [`HMAC_MAX`].
    pub value: Vec<u8>,
}

impl Hmac {
    fn parse(data: &[u8]) -> Option<Self> {
        let (fixed, value) = data.split_first_chunk::<HMAC_FIXED_LEN>()?;
        let [flags, _reserved, key_id @ ..] = *fixed;
        is_hmac_len(value.len()).then(|| Self {
            any_destination: flags & HMAC_D != 0,
            key_id: u32::from_be_bytes(key_id),
            value: value.to_vec(),
        })
    }

    fn emit(&self) -> Option<Vec<u8>> {
        let length = u8::try_from(HMAC_FIXED_LEN + self.value.len()).ok()?;
        let flags = if self.any_destination { HMAC_D } else { 0 };
        let mut bytes = vec![tlv_type::HMAC, length, flags, 0];
        bytes.extend(self.key_id.to_be_bytes());
        bytes.extend(&self.value);
        is_hmac_len(self.value.len()).then_some(bytes)
    }
}

fn is_hmac_len(length: usize) -> bool {
    length.is_multiple_of(8) && (8..=HMAC_MAX).contains(&length)
}

/// The values of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Protocol number of the payload.
    pub next_header: u8,
    /// Segments still to be visited.
    pub segments_left: u8,
    /// Flags; RFC 8754 assigns none.
    pub flags: u8,
    /// Tag: marks packets of one class.
    pub tag: u16,
    /// The segments in the order of the path, 1 to [`SEGMENTS_MAX`].
    pub segments: Vec<Ipv6Addr>,
    /// HMAC TLV.
    pub hmac: Option<Hmac>,
}

impl Repr {
    /// The header of a packet at its source, with the first segment as destination address. `None` without
    /// segments or with more than 256.
    #[must_use]
    pub fn at_source(next_header: u8, segments: Vec<Ipv6Addr>) -> Option<Self> {
        let segments_left = u8::try_from(segments.len().checked_sub(1)?).ok()?;
        Some(Self { next_header, segments_left, flags: 0, tag: 0, segments, hmac: None })
    }

    /// The header, or `None` if a value does not fit its field.
    #[must_use]
    pub fn emit(&self) -> Option<Vec<u8>> {
        let last_entry = u8::try_from(self.segments.len().checked_sub(1)?).ok()?;
        let hmac = self.hmac.as_ref().map_or(Some(Vec::new()), Hmac::emit)?;
        let ext_len = u8::try_from((self.segments.len() * SEGMENT_LEN + hmac.len()) / 8).ok()?;
        if u16::from(self.segments_left) > u16::from(last_entry) + 1 {
            return None;
        }
        let mut fixed = [0; FIXED_LEN];
        fixed[field::NEXT_HEADER] = self.next_header;
        fixed[field::HDR_EXT_LEN] = ext_len;
        fixed[field::ROUTING_TYPE] = ROUTING_TYPE;
        fixed[field::SEGMENTS_LEFT] = self.segments_left;
        fixed[field::LAST_ENTRY] = last_entry;
        fixed[field::FLAGS] = self.flags;
        fixed[field::TAG].copy_from_slice(&self.tag.to_be_bytes());
        let list = self.segments.iter().rev().flat_map(Ipv6Addr::octets);
        Some(fixed.into_iter().chain(list).chain(hmac).collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{
        tlv_type::{PAD1, PADN},
        *,
    };

    prop_compose! {
        fn hmac()(any_destination: bool, key_id: u32, words in 1..=4_usize, byte: u8) -> Hmac {
            Hmac { any_destination, key_id, value: vec![byte; words * 8] }
        }
    }

    prop_compose! {
        fn repr()(
            next_header: u8,
            flags: u8,
            tag: u16,
            segments in prop::collection::vec(any::<u128>().prop_map(Ipv6Addr::from), 1..12),
            left in 0..=12_usize,
            hmac in prop::option::of(hmac()),
        ) -> Repr {
            let segments_left = u8::try_from(left.min(segments.len())).unwrap();
            Repr { next_header, segments_left, flags, tag, segments, hmac }
        }
    }

    fn two() -> Repr {
        let segments = vec!["fd00::1".parse().unwrap(), "fd00::2".parse().unwrap()];
        Repr::at_source(41, segments).unwrap()
    }

    proptest! {
        #[test]
        fn what_is_emitted_parses(repr in repr(), payload: Vec<u8>) {
            let bytes = [repr.emit().unwrap(), payload.clone()].concat();
            let header = Header::parse(&bytes).unwrap();
            prop_assert_eq!(header.repr(), repr);
            prop_assert_eq!(header.payload(), &payload[..]);
        }

        #[test]
        fn what_parses_keeps_its_values(mut bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Some(kind) = bytes.get_mut(2) {
                *kind = ROUTING_TYPE;
            }
            if let Ok(header) = Header::parse(&bytes) {
                prop_assert_eq!(Header::parse(&header.repr().emit().unwrap()).unwrap().repr(), header.repr());
            }
        }
    }

    #[test]
    fn the_list_is_in_reverse_order() {
        let repr = two();
        let bytes = [repr.emit().unwrap(), b"rest".to_vec()].concat();
        assert_eq!(bytes[..8], [41, 4, 4, 1, 1, 0, 0, 0]);
        assert_eq!(bytes[8..24], repr.segments[1].octets());
        let header = Header::parse(&bytes).unwrap();
        assert_eq!(header.next_segment(), Some(repr.segments[1]));
        assert_eq!(header.payload(), b"rest");
    }

    #[test]
    fn a_list_has_1_to_127_segments() {
        assert_eq!(Repr::at_source(41, vec![]), None);
        let list = |length| Repr::at_source(41, vec![Ipv6Addr::LOCALHOST; length]).unwrap().emit();
        assert!(list(SEGMENTS_MAX).is_some());
        assert_eq!(list(SEGMENTS_MAX + 1), None);
    }

    #[test]
    fn padding_and_unknown_tlvs_are_skipped() {
        let mut bytes = two().emit().unwrap();
        bytes.extend([PAD1, PADN, 1, 0, 200, 2, 7, 7]);
        bytes[1] += 1;
        let header = Header::parse(&bytes).unwrap();
        assert_eq!(header.tlvs().collect::<Vec<_>>(), [Tlv { kind: 200, data: &[7, 7] }]);
        assert_eq!(header.hmac(), None);
    }

    #[test]
    fn the_signed_text_is_that_of_section_2_1_2_1() {
        let repr = Repr { flags: 9, ..two() };
        let bytes = repr.emit().unwrap();
        let text = Header::parse(&bytes).unwrap().signed_text(Ipv6Addr::LOCALHOST, 0x0102_0304);
        assert_eq!(text[..16], Ipv6Addr::LOCALHOST.octets());
        assert_eq!(text[16..22], [1, 9, 1, 2, 3, 4]);
        assert_eq!(text[22..], bytes[8..]);
    }

    #[test]
    fn each_malformed_field_is_named() {
        let good = two().emit().unwrap();
        for (at, value, field) in [
            (1, 3, "SRH last entry"),
            (1, 5, "SRH header length"),
            (2, 3, "routing type"),
            (3, 3, "SRH segments left"),
            (4, 2, "SRH last entry"),
        ] {
            let mut bytes = good.clone();
            bytes[at] = value;
            assert_eq!(Header::parse(&bytes).unwrap_err().field, field);
        }
        assert_eq!(Header::parse(&good[..7]).unwrap_err().field, "SRH length");
        for (tlv, field) in [
            ([9, 7, 0, 0, 0, 0, 0, 0], "SRH TLV length"),
            ([5, 6, 0, 0, 0, 0, 0, 0], "SRH HMAC length"),
        ] {
            let mut bytes = [&good[..], &tlv].concat();
            bytes[1] += 1;
            assert_eq!(Header::parse(&bytes).unwrap_err().field, field);
        }
    }
}
