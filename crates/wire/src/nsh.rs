//! The Network Service Header (RFC 8300), with context headers of fixed (MD type 1) and variable length
//! (MD type 2).
//!
//! What a node must do with the service index and the time to live is here too: [`Path::served`] and
//! [`forward_ttl`].

use std::iter;

use crate::Malformed;

/// Length of base header and service path header.
pub const BASE_LEN: usize = 8;
/// Length of a header of MD type 1 (RFC 8300 section 2.4).
pub const FIXED_LEN: usize = BASE_LEN + CONTEXT_LEN;
/// Length of the context header of MD type 1.
pub const CONTEXT_LEN: usize = 16;
/// Longest header: the length field counts words of 4 bytes in 6 bits.
pub const LEN_MAX: usize = 63 * 4;
/// Highest service path identifier.
pub const SPI_MAX: u32 = 0xff_ffff;
/// Highest time to live, which is also the default (RFC 8300 section 2.2).
pub const TTL_MAX: u8 = 63;
/// Most bytes of metadata in one context header of variable length.
pub const METADATA_MAX: usize = 127;

const TLV_HEADER_LEN: usize = 4;
const OAM: u16 = 0x2000;

/// Next protocols (RFC 8300 section 2.2).
pub mod next_protocol {
    /// IPv4.
    pub const IPV4: u8 = 1;
    /// IPv6.
    pub const IPV6: u8 = 2;
    /// Ethernet.
    pub const ETHERNET: u8 = 3;
}

/// Place of a packet on its way: which path, and which of its functions comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Path {
    /// Service path identifier, 24 bits.
    pub spi: u32,
    /// Service index.
    pub si: u8,
}

impl Path {
    /// The place after a function; none where the index is used up (RFC 8300 section 2.3).
    #[must_use]
    pub fn served(self) -> Option<Self> {
        let si = self.si.checked_sub(1).filter(|si| *si > 0)?;
        Some(Self { si, ..self })
    }
}

/// The time to live a forwarder sends on; none where the packet must be dropped. A zero that comes in
/// becomes 63, for nodes that do not know the field (RFC 8300 section 2.2).
#[must_use]
pub const fn forward_ttl(ttl: u8) -> Option<u8> {
    match ttl {
        0 => Some(TTL_MAX),
        1 => None,
        ttl => Some(ttl - 1),
    }
}

/// A header, and what follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    base: &'a [u8; BASE_LEN],
    context: Context<'a>,
    payload: &'a [u8],
}

/// Metadata as it stands in a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context<'a> {
    /// MD type 1: 16 bytes whose meaning the path's control plane knows (RFC 8300 section 2.4).
    Fixed(&'a [u8; CONTEXT_LEN]),
    /// MD type 2 (RFC 8300 section 2.5).
    Variable(Tlvs<'a>),
}

impl<'a> Header<'a> {
    /// Reads a header. Unassigned bits are ignored, as RFC 8300 section 2.2 wants.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let Some(base) = bytes.first_chunk::<BASE_LEN>() else {
            return wrong("NSH length", 0, bytes.len(), "8 bytes or more");
        };
        if base[0] >> 6 != 0 {
            return wrong("NSH version", 0, usize::from(base[0] >> 6), "0");
        }
        let length = usize::from(base[1] & 0x3f) * 4;
        let md_type = base[2] & 0xf;
        let room = match md_type {
            1 => FIXED_LEN..=FIXED_LEN,
            2 => BASE_LEN..=LEN_MAX,
            _ => return wrong("NSH MD type", 2, usize::from(md_type), "1 or 2"),
        };
        match bytes.split_at_checked(length) {
            Some((header, payload)) if room.contains(&length) => {
                let context = context(md_type, header.get(BASE_LEN..).unwrap_or_default())?;
                Ok(Self { base, context, payload })
            }
            _ => wrong("NSH header length", 1, length, "the length of its MD type"),
        }
    }

    /// Whether it is a packet for operation and maintenance.
    #[must_use]
    pub fn oam(&self) -> bool {
        u16::from_be_bytes([self.base[0], self.base[1]]) & OAM != 0
    }

    /// Service forwarders it may still pass, 6 bits; 0 of a node that does not know the field.
    #[must_use]
    pub fn ttl(&self) -> u8 {
        (self.base[0] & 0xf) << 2 | self.base[1] >> 6
    }

    /// What the payload is.
    #[must_use]
    pub fn next_protocol(&self) -> u8 {
        self.base[3]
    }

    /// Where on which path.
    #[must_use]
    pub fn path(&self) -> Path {
        let [_, _, _, _, a, b, c, si] = *self.base;
        Path { spi: u32::from_be_bytes([0, a, b, c]), si }
    }

    /// The metadata.
    #[must_use]
    pub fn context(&self) -> Context<'a> {
        self.context
    }

    /// What follows the header.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// The values.
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
        Some(fixed) if md_type == 1 => Ok(Context::Fixed(fixed)),
        _ => Tlvs::parse(bytes).map(Context::Variable),
    }
}

/// Context headers of variable length, whose lengths agree with that of the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tlvs<'a>(&'a [u8]);

impl<'a> Tlvs<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let offset = BASE_LEN + bytes.len() - rest.len() + 3;
            let found = rest.get(3).copied().unwrap_or_default();
            let Some((_, after)) = split(rest) else {
                return wrong("NSH metadata length", offset, found.into(), "at most what is left");
            };
            rest = after;
        }
        Ok(Self(bytes))
    }

    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = Tlv<'a>> + use<'a> {
        let mut rest = self.0;
        iter::from_fn(move || {
            let (tlv, after) = split(rest)?;
            rest = after;
            Some(tlv)
        })
    }
}

/// Metadata fill whole words of 4 bytes (RFC 8300 section 2.5.1).
fn split(bytes: &[u8]) -> Option<(Tlv<'_>, &[u8])> {
    let (header, rest) = bytes.split_first_chunk::<TLV_HEADER_LEN>()?;
    let length = usize::from(header[3] & 0x7f);
    let (padded, after) = rest.split_at_checked(length.next_multiple_of(4))?;
    let class = u16::from_be_bytes([header[0], header[1]]);
    Some((Tlv { class, kind: header[2], data: padded.get(..length)? }, after))
}

/// One context header of variable length (RFC 8300 section 2.5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tlv<'a> {
    /// Scope of the type.
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

/// The values of one context header of variable length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlvRepr {
    /// Scope of the type.
    pub class: u16,
    /// Type of the metadata.
    pub kind: u8,
    /// The metadata: at most [`METADATA_MAX`] bytes.
    pub data: Vec<u8>,
}

/// Metadata.
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
    /// Whether it is a packet for operation and maintenance.
    pub oam: bool,
    /// Service forwarders it may still pass: at most [`TTL_MAX`].
    pub ttl: u8,
    /// What the payload is.
    pub next_protocol: u8,
    /// Where on which path.
    pub path: Path,
    /// Metadata.
    pub metadata: Metadata,
}

impl Repr {
    /// The header; none where a value has no room in its field.
    #[must_use]
    pub fn emit(&self) -> Option<Vec<u8>> {
        if self.ttl > TTL_MAX || self.path.spi > SPI_MAX {
            return None;
        }
        let (md_type, context) = match &self.metadata {
            Metadata::Fixed(bytes) => (1, bytes.to_vec()),
            Metadata::Variable(tlvs) => (2, variable(tlvs)?),
        };
        let length = BASE_LEN + context.len();
        let words = u16::try_from(length / 4).ok().filter(|_| length <= LEN_MAX)?;
        let first = if self.oam { OAM } else { 0 } | u16::from(self.ttl) << 6 | words;
        let mut bytes = first.to_be_bytes().to_vec();
        bytes.extend([md_type, self.next_protocol]);
        bytes.extend((self.path.spi << 8 | u32::from(self.path.si)).to_be_bytes());
        bytes.extend(context);
        Some(bytes)
    }
}

fn variable(tlvs: &[TlvRepr]) -> Option<Vec<u8>> {
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
    fn fields_are_where_section_2_puts_them() {
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
        assert_eq!(at(255).served(), Some(at(254)));
        assert_eq!((at(1).served(), at(0).served()), (None, None));
        assert_eq!([0, 1, 2, 63].map(forward_ttl), [Some(63), None, Some(1), Some(62)]);
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
