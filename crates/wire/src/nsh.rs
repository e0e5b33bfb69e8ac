//! The Network Service Header (RFC 8300), with context headers of MD types 1 and 2.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---+-+-+-----------+-----------+-------+-------+---------------+
//! |Ver|O|U|    TTL    |   Length  |U|U|U|U|MD Type| Next Protocol |   section 2.2
//! +---+-+-+-----------+-----------+-------+-------+---------------+
//! |          Service Path Identifier (SPI)        | Service Index |   section 2.3
//! +-----------------------------------------------+---------------+
//! |  MD type 1: Fixed-Length Context Header (16 bytes)            |   section 2.4
//! |  MD type 2: Variable-Length Context Headers (0 or more)       |   section 2.5
//! +---------------------------------------------------------------+
//!
//! +-------------------------------+---------------+-+-------------+
//! |        Metadata Class         |     Type      |U|   Length    |   section 2.5.1
//! +-------------------------------+---------------+-+-------------+
//! |  Metadata, padded to 4 bytes                                  |
//! +---------------------------------------------------------------+
//! ```
//!
//! Length counts 4-byte words. The rules for the service index and the TTL are [`Path::decrement_index`] and
//! [`decrement_ttl`].

use std::iter;

use crate::{Malformed, bytes};

/// Length of base header and service path header, bytes.
pub const BASE_LEN: usize = 8;
/// Length of a header of MD type 1, bytes (section 2.4).
pub const FIXED_LEN: usize = BASE_LEN + CONTEXT_LEN;
/// Length of the context header of MD type 1, bytes.
pub const CONTEXT_LEN: usize = 16;
/// Longest header, bytes: the length field has 6 bits.
pub const LEN_MAX: usize = 63 * 4;
/// Highest service path identifier: 24 bits.
pub const SPI_MAX: u32 = 0xff_ffff;
/// Highest TTL, which is also the recommended initial value (section 2.2).
pub const TTL_MAX: u8 = 63;
/// Longest metadata of one context header of MD type 2, bytes: its length field has 7 bits.
pub const METADATA_MAX: usize = 127;

/// Length of class, type and length of a context header of MD type 2, bytes.
const TLV_HEADER_LEN: usize = 4;

mod field {
    use std::ops::Range;

    /// Version, O bit, TTL and length.
    pub(super) const VERSION_TTL_LENGTH: Range<usize> = 0..2;
    pub(super) const LENGTH: usize = 1;
    pub(super) const MD_TYPE: usize = 2;
    pub(super) const NEXT_PROTOCOL: usize = 3;
    /// Service path identifier and service index.
    pub(super) const SPI_SI: Range<usize> = 4..8;
}

/// Offsets within a context header of MD type 2.
mod tlv_field {
    use std::ops::Range;

    pub(super) const CLASS: Range<usize> = 0..2;
    pub(super) const KIND: usize = 2;
    pub(super) const LENGTH: usize = 3;
}

/// Parts of the first 16-bit word.
const VERSION_SHIFT: u32 = 14;
const OAM: u16 = 0x2000;
const TTL_SHIFT: u32 = 6;
const LENGTH_MASK: u16 = 0x3f;

const MD_TYPE_MASK: u8 = 0x0f;
const MD_TYPE_1: u8 = 1;
const MD_TYPE_2: u8 = 2;
const TLV_LENGTH_MASK: u8 = 0x7f;

/// Next protocols (section 2.2).
pub mod next_protocol {
    /// IPv4.
    pub const IPV4: u8 = 1;
    /// IPv6.
    pub const IPV6: u8 = 2;
    /// Ethernet.
    pub const ETHERNET: u8 = 3;
}

/// The service path header: a service path, and the position on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Path {
    /// Service path identifier, 24 bits.
    pub spi: u32,
    /// Service index.
    pub si: u8,
}

impl Path {
    /// The position after a service function, or `None` if the index is used up (section 2.3).
    #[must_use]
    pub fn decrement_index(self) -> Option<Self> {
        let si = self.si.checked_sub(1).filter(|si| *si > 0)?;
        Some(Self { si, ..self })
    }
}

/// The TTL with which an SFF forwards a packet, or `None` if the packet must be dropped. A received 0
/// becomes 63, for senders that do not set the field (section 2.2).
#[must_use]
pub const fn decrement_ttl(ttl: u8) -> Option<u8> {
    match ttl {
        0 => Some(TTL_MAX),
        1 => None,
        ttl => Some(ttl - 1),
    }
}

/// A view of a header and its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    base: &'a [u8; BASE_LEN],
    context: Context<'a>,
    payload: &'a [u8],
}

/// A view of the context headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context<'a> {
    /// MD type 1: 16 bytes whose meaning the control plane defines for each path (section 2.4).
    Fixed(&'a [u8; CONTEXT_LEN]),
    /// MD type 2 (section 2.5).
    Variable(Tlvs<'a>),
}

impl<'a> Header<'a> {
    /// Parses a header. Unassigned bits are ignored (section 2.2).
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let Some(base) = bytes.first_chunk::<BASE_LEN>() else {
            return wrong("NSH length", 0, bytes.len(), "8 bytes or more");
        };
        let first_word = first_word(*base);
        let version = first_word >> VERSION_SHIFT;
        if version != 0 {
            return wrong("NSH version", 0, version.into(), "0");
        }
        let length = usize::from(first_word & LENGTH_MASK) * 4;
        let md_type = base[field::MD_TYPE] & MD_TYPE_MASK;
        let lengths = match md_type {
            MD_TYPE_1 => FIXED_LEN..=FIXED_LEN,
            MD_TYPE_2 => BASE_LEN..=LEN_MAX,
            _ => return wrong("NSH MD type", field::MD_TYPE, md_type.into(), "1 or 2"),
        };
        match bytes.split_at_checked(length) {
            Some((header, payload)) if lengths.contains(&length) => {
                let context = context(md_type, header.get(BASE_LEN..).unwrap_or_default())?;
                Ok(Self { base, context, payload })
            }
            _ => wrong("NSH header length", field::LENGTH, length, "the length of its MD type"),
        }
    }

    /// Whether the payload is an OAM packet (O bit).
    #[must_use]
    pub fn oam(&self) -> bool {
        first_word(*self.base) & OAM != 0
    }

    /// TTL, 6 bits: SFF hops left. 0 if the sender does not set the field.
    #[must_use]
    pub fn ttl(&self) -> u8 {
        #[allow(clippy::cast_possible_truncation)] // 6 bits
        let ttl = (first_word(*self.base) >> TTL_SHIFT) as u8 & TTL_MAX;
        ttl
    }

    /// Protocol of the payload, see [`next_protocol`].
    #[must_use]
    pub fn next_protocol(&self) -> u8 {
        self.base[field::NEXT_PROTOCOL]
    }

    /// The service path header.
    #[must_use]
    pub fn path(&self) -> Path {
        let [spi @ .., si] = bytes::field::<4>(self.base, field::SPI_SI);
        let [a, b, c] = spi;
        Path { spi: u32::from_be_bytes([0, a, b, c]), si }
    }

    /// The context headers.
    #[must_use]
    pub fn context(&self) -> Context<'a> {
        self.context
    }

    /// What follows the header.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// The values of the header.
    #[must_use]
    pub fn repr(&self) -> Repr {
        Repr {
            oam: self.oam(),
            ttl: self.ttl(),
            next_protocol: self.next_protocol(),
            path: self.path(),
            metadata: match self.context {
                Context::Fixed(bytes) => Metadata::Fixed(*bytes),
                Context::Variable(tlvs) => {
                    Metadata::Variable(tlvs.iter().map(|tlv| tlv.repr()).collect())
                }
            },
        }
    }
}

fn first_word(base: [u8; BASE_LEN]) -> u16 {
    u16::from_be_bytes(bytes::field(&base, field::VERSION_TTL_LENGTH))
}

fn wrong<T>(
    field: &'static str,
    offset: usize,
    found: usize,
    expected: &'static str,
) -> Result<T, Malformed> {
    Err(Malformed { field, offset, found: found as u64, expected })
}

fn context(md_type: u8, bytes: &[u8]) -> Result<Context<'_>, Malformed> {
    match bytes.first_chunk() {
        Some(fixed) if md_type == MD_TYPE_1 => Ok(Context::Fixed(fixed)),
        _ => Tlvs::parse(bytes).map(Context::Variable),
    }
}

/// A view of context headers of MD type 2, whose lengths were checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tlvs<'a>(&'a [u8]);

impl<'a> Tlvs<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let offset = BASE_LEN + bytes.len() - rest.len() + tlv_field::LENGTH;
            let found = rest.get(tlv_field::LENGTH).copied().unwrap_or_default();
            let Some((_, after)) = split_first(rest) else {
                return wrong("NSH metadata length", offset, found.into(), "at most what is left");
            };
            rest = after;
        }
        Ok(Self(bytes))
    }

    /// The context headers, in order.
    pub fn iter(&self) -> impl Iterator<Item = Tlv<'a>> + use<'a> {
        let mut rest = self.0;
        iter::from_fn(move || {
            let (tlv, after) = split_first(rest)?;
            rest = after;
            Some(tlv)
        })
    }
}

/// Splits off the first context header. Its metadata is padded to 4 bytes (section 2.5.1).
fn split_first(bytes: &[u8]) -> Option<(Tlv<'_>, &[u8])> {
    let (header, rest) = bytes.split_first_chunk::<TLV_HEADER_LEN>()?;
    let length = usize::from(header[tlv_field::LENGTH] & TLV_LENGTH_MASK);
    let (padded, after) = rest.split_at_checked(length.next_multiple_of(4))?;
    let class = u16::from_be_bytes(bytes::field(header, tlv_field::CLASS));
    Some((Tlv { class, kind: header[tlv_field::KIND], data: padded.get(..length)? }, after))
}

/// A view of one context header of MD type 2 (section 2.5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tlv<'a> {
    /// Metadata class: the scope of the type.
    pub class: u16,
    /// Type of the metadata.
    pub kind: u8,
    /// The metadata, without padding.
    pub data: &'a [u8],
}

impl Tlv<'_> {
    fn repr(&self) -> TlvRepr {
        TlvRepr { class: self.class, kind: self.kind, data: self.data.to_vec() }
    }
}

/// The values of one context header of MD type 2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlvRepr {
    /// Metadata class: the scope of the type.
    pub class: u16,
    /// Type of the metadata.
    pub kind: u8,
    /// The metadata, at most [`METADATA_MAX`] bytes.
    pub data: Vec<u8>,
}

/// The values of the context headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Metadata {
    /// MD type 1.
    Fixed([u8; CONTEXT_LEN]),
    /// MD type 2.
    Variable(Vec<TlvRepr>),
}

/// The values of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Whether the payload is an OAM packet (O bit).
    pub oam: bool,
    /// TTL: SFF hops left, at most [`TTL_MAX`].
    pub ttl: u8,
    /// Protocol of the payload.
    pub next_protocol: u8,
    /// The service path header.
    pub path: Path,
    /// The context headers.
    pub metadata: Metadata,
}

impl Repr {
    /// What a classifier puts before an Ethernet frame: the recommended TTL, and no OAM packet.
    #[must_use]
    pub fn initial(path: Path, metadata: Metadata) -> Self {
        let next_protocol = next_protocol::ETHERNET;
        Self { oam: false, ttl: TTL_MAX, next_protocol, path, metadata }
    }

    /// The header, or `None` if a value does not fit its field.
    #[must_use]
    pub fn emit(&self) -> Option<Vec<u8>> {
        if self.ttl > TTL_MAX || self.path.spi > SPI_MAX {
            return None;
        }
        let (md_type, context) = match &self.metadata {
            Metadata::Fixed(bytes) => (MD_TYPE_1, bytes.to_vec()),
            Metadata::Variable(tlvs) => (MD_TYPE_2, emit_tlvs(tlvs)?),
        };
        let length = BASE_LEN + context.len();
        let words = u16::try_from(length / 4).ok().filter(|_| length <= LEN_MAX)?;
        let oam = if self.oam { OAM } else { 0 };
        let mut bytes = (oam | u16::from(self.ttl) << TTL_SHIFT | words).to_be_bytes().to_vec();
        bytes.extend([md_type, self.next_protocol]);
        bytes.extend((self.path.spi << 8 | u32::from(self.path.si)).to_be_bytes());
        bytes.extend(context);
        Some(bytes)
    }
}

fn emit_tlvs(tlvs: &[TlvRepr]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for tlv in tlvs {
        let length =
            u8::try_from(tlv.data.len()).ok().filter(|n| usize::from(*n) <= METADATA_MAX)?;
        bytes.extend(tlv.class.to_be_bytes());
        bytes.extend([tlv.kind, length]);
        bytes.extend(&tlv.data);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    prop_compose! {
        fn tlv()(class: u16, kind: u8, data in prop::collection::vec(any::<u8>(), 0..=40)) -> TlvRepr {
            TlvRepr { class, kind, data }
        }
    }

    fn metadata() -> impl Strategy<Value = Metadata> {
        prop_oneof![
            any::<[u8; CONTEXT_LEN]>().prop_map(Metadata::Fixed),
            prop::collection::vec(tlv(), 0..5).prop_map(Metadata::Variable),
        ]
    }

    prop_compose! {
        fn repr()(
            oam: bool,
            ttl in 0..=TTL_MAX,
            next_protocol: u8,
            spi in 0..=SPI_MAX,
            si: u8,
            metadata in metadata(),
        ) -> Repr {
            Repr { oam, ttl, next_protocol, path: Path { spi, si }, metadata }
        }
    }

    fn sample() -> Repr {
        Repr {
            oam: false,
            ttl: TTL_MAX,
            next_protocol: next_protocol::ETHERNET,
            path: Path { spi: 0x01_0203, si: 255 },
            metadata: Metadata::Fixed([7; CONTEXT_LEN]),
        }
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
        fn what_parses_keeps_its_values(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(header) = Header::parse(&bytes) {
                let emitted = header.repr().emit().unwrap();
                prop_assert_eq!(emitted.len() + header.payload().len(), bytes.len());
                prop_assert_eq!(Header::parse(&emitted).unwrap().repr(), header.repr());
            }
        }

        #[test]
        fn a_header_cut_short_is_refused(repr in repr(), cut in 1..8_usize) {
            let mut bytes = repr.emit().unwrap();
            bytes.truncate(bytes.len() - cut);
            prop_assert!(Header::parse(&bytes).is_err());
        }
    }

    #[test]
    fn fields_are_at_the_offsets_of_section_2() {
        let bytes = sample().emit().unwrap();
        assert_eq!(bytes[..8], [0x0f, 0xc6, 1, 3, 1, 2, 3, 255]);
        let oam = Repr { oam: true, ttl: 1, metadata: Metadata::Variable(vec![]), ..sample() };
        assert_eq!(oam.emit().unwrap(), [0x20, 0x42, 2, 3, 1, 2, 3, 255]);
    }

    #[test]
    fn each_malformed_field_is_named() {
        let good = sample().emit().unwrap();
        for (at, value, field) in [
            (0, 0x4f, "NSH version"),
            (1, 0xc5, "NSH header length"),
            (1, 0xc7, "NSH header length"),
            (2, 0, "NSH MD type"),
            (2, 15, "NSH MD type"),
        ] {
            let mut bytes = good.clone();
            bytes[at] = value;
            assert_eq!(Header::parse(&bytes).unwrap_err().field, field);
        }
        assert_eq!(Header::parse(&good[..7]).unwrap_err().field, "NSH length");
        let long = [0x0f, 0xc3, 2, 3, 0, 0, 1, 255, 0, 1, 2, 1];
        let error = Header::parse(&long).unwrap_err();
        assert_eq!((error.field, error.offset), ("NSH metadata length", 11));
    }

    #[test]
    fn index_and_time_to_live_run_out() {
        let at = |si| Path { spi: 1, si };
        assert_eq!(at(255).decrement_index(), Some(at(254)));
        assert_eq!((at(1).decrement_index(), at(0).decrement_index()), (None, None));
        assert_eq!([0, 1, 2, 63].map(decrement_ttl), [Some(63), None, Some(1), Some(62)]);
    }

    #[test]
    fn nothing_larger_than_its_field() {
        assert_eq!(Repr { ttl: 64, ..sample() }.emit(), None);
        assert_eq!(Repr { path: Path { spi: 1 << 24, si: 1 }, ..sample() }.emit(), None);
        let tlv = |length| TlvRepr { class: 0, kind: 0, data: vec![0; length] };
        let with = |tlvs| Repr { metadata: Metadata::Variable(tlvs), ..sample() };
        assert_eq!(with(vec![tlv(128)]).emit(), None);
        assert_eq!(with(vec![tlv(124), tlv(112)]).emit().unwrap().len(), LEN_MAX);
        assert_eq!(with(vec![tlv(124), tlv(113)]).emit(), None);
    }
}
