//! The tunnel header of the `quic` transport, the hello of its connections, and its control datagrams.
//!
//! A member path is one QUIC connection. Its first bidirectional stream carries a [`Hello`] in each
//! direction; each DATAGRAM frame (RFC 9221) carries an inner IP packet behind a [`Header`].

mod hello;

pub use self::hello::{
    Abilities, Capabilities, HELLO_MAX_LEN, Hello, MAX_NAME_LEN, OwnAddresses, WIRE_VERSIONS,
};
use crate::{Malformed, bytes};

/// Length of a [`Header`], bytes.
pub const HEADER_LEN: usize = 10;

/// Highest flow number: 12 bits.
pub const FLOW_MAX: u16 = 0xfff;

mod field {
    use std::ops::Range;

    pub(super) const FLAGS_FLOW: Range<usize> = 0..2;
    pub(super) const SEQUENCE: Range<usize> = 2..6;
    pub(super) const BEHIND: Range<usize> = 6..8;
    pub(super) const PATHS: Range<usize> = 8..10;
}

/// Bits of the first 16-bit word above the flow.
mod flag {
    pub(super) const CHECKSUM_OMITTED: u16 = 0x1000;
    pub(super) const RETRANSMITTABLE: u16 = 0x2000;
    pub(super) const CONTEXT: u16 = 0x4000;
    pub(super) const COMPRESSED: u16 = 0x8000;
    pub(super) const FORM: u16 = CONTEXT | COMPRESSED;
}

/// First byte of a padding datagram, which the receiver drops. It fills a path to measure its rate. Both form
/// bits are set, as in no [`Header`].
pub const PADDING: u8 = 0xc0;

/// First byte of a datagram that reports an unknown context.
const UNKNOWN_CONTEXT: u8 = 0xc1;

/// Whether a datagram is padding.
#[must_use]
pub fn is_padding(datagram: &[u8]) -> bool {
    datagram.first() == Some(&PADDING)
}

/// The datagram that reports that a packet of this flow could not be restored: 0xc1, then the flow (16 bits).
#[must_use]
pub const fn unknown_context(flow: u16) -> [u8; 3] {
    let [high, low] = flow.to_be_bytes();
    [UNKNOWN_CONTEXT, high, low]
}

/// The flow whose context a datagram reports as unknown. `None` for other datagrams.
#[must_use]
pub fn flow_of_unknown_context(datagram: &[u8]) -> Option<u16> {
    match datagram {
        &[UNKNOWN_CONTEXT, high, low] => Some(u16::from_be_bytes([high, low])),
        _ => None,
    }
}

/// Form of the packet behind a [`Header`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Uncompressed.
    Plain,
    /// Uncompressed, and its start becomes the context of the flow.
    Context,
    /// Compressed with a [`Context`](crate::context::Context).
    Compressed,
}

impl Form {
    fn from_bits(word: u16) -> Option<Self> {
        match word & flag::FORM {
            0 => Some(Self::Plain),
            flag::CONTEXT => Some(Self::Context),
            flag::COMPRESSED => Some(Self::Compressed),
            _ => None,
        }
    }

    const fn bits(self) -> u16 {
        match self {
            Self::Plain => 0,
            Self::Context => flag::CONTEXT,
            Self::Compressed => flag::COMPRESSED,
        }
    }
}

/// The header before an inner packet.
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +---+-+-+-----------------------+-------------------------------+
/// |Frm|R|O|         Flow          |   Sequence Number (high 16)   |
/// +---+-+-+-----------------------+-------------------------------+
/// |   Sequence Number (low 16)    |            Behind             |
/// +-------------------------------+-------------------------------+
/// |             Paths             |
/// +-------------------------------+
///
/// Frm: 0 plain, 1 context, 2 compressed     R: retransmittable     O: TCP checksum omitted
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Flow of the packet, at most [`FLOW_MAX`].
    pub flow: u16,
    /// Form of the packet.
    pub form: Form,
    /// Whether the TCP checksum was omitted (its field is 0), as in segments of a GSO packet. The connection
    /// authenticates the packet, and a receiver that coalesces segments needs no checksum of each.
    pub checksum_omitted: bool,
    /// Whether the sender retransmits the packet if it is lost.
    pub retransmittable: bool,
    /// Sequence number within the flow.
    pub sequence: u32,
    /// Distance from the packet after this one back to the flow's first packet that was still queued, or
    /// still retransmittable, when this one was sent. 0: none was. 65535: unknown.
    pub behind: u16,
    /// Paths on which packets of the flow may be in flight: bit `i` for member path `i`.
    pub paths: u16,
}

impl Header {
    /// Splits a datagram into header and inner packet.
    pub fn parse(datagram: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let Some((header, packet)) = datagram.split_first_chunk::<HEADER_LEN>() else {
            return Err(Malformed {
                field: "datagram length",
                offset: 0,
                found: datagram.len() as u64,
                expected: "10 or more",
            });
        };
        let word = u16::from_be_bytes(bytes::field(header, field::FLAGS_FLOW));
        let Some(form) = Form::from_bits(word) else {
            let found = u64::from(word >> 14);
            return Err(Malformed { field: "form", offset: 0, found, expected: "0 to 2" });
        };
        let header = Self {
            flow: word & FLOW_MAX,
            form,
            checksum_omitted: word & flag::CHECKSUM_OMITTED != 0,
            retransmittable: word & flag::RETRANSMITTABLE != 0,
            sequence: u32::from_be_bytes(bytes::field(header, field::SEQUENCE)),
            behind: u16::from_be_bytes(bytes::field(header, field::BEHIND)),
            paths: u16::from_be_bytes(bytes::field(header, field::PATHS)),
        };
        Ok((header, packet))
    }

    /// The header's bytes.
    #[must_use]
    pub fn emit(&self) -> [u8; HEADER_LEN] {
        let checksum_omitted = if self.checksum_omitted { flag::CHECKSUM_OMITTED } else { 0 };
        let retransmittable = if self.retransmittable { flag::RETRANSMITTABLE } else { 0 };
        let word = self.flow & FLOW_MAX | checksum_omitted | retransmittable | self.form.bits();
        let mut header = [0; HEADER_LEN];
        header[field::FLAGS_FLOW].copy_from_slice(&word.to_be_bytes());
        header[field::SEQUENCE].copy_from_slice(&self.sequence.to_be_bytes());
        header[field::BEHIND].copy_from_slice(&self.behind.to_be_bytes());
        header[field::PATHS].copy_from_slice(&self.paths.to_be_bytes());
        header
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_emitted_header_parses(flow in 0..=FLOW_MAX, form in 0..3_usize, checksum_omitted: bool, retransmittable: bool, sequence: u32, behind: u16, paths: u16, packet: Vec<u8>) {
            let form = [Form::Plain, Form::Context, Form::Compressed][form];
            let header = Header { flow, form, checksum_omitted, retransmittable, sequence, behind, paths };
            let bytes = [header.emit().as_slice(), &packet].concat();
            prop_assert_eq!(Header::parse(&bytes), Ok((header, packet.as_slice())));
        }

        #[test]
        fn an_emitted_hello_parses(id: u16, group: u8, member: u8, session: [u8; 16], abilities: bool, versions in (1..=9_u8, 9..20_u8), bits: u32, proxy: bool, v4 in 1_u32.., v6 in 1_u128.., has: (bool, bool), branch in "[a-z]{1,63}") {
            let own = OwnAddresses { v4: has.0.then(|| v4.into()), v6: has.1.then(|| v6.into()) };
            let proxy = proxy.then_some(own);
            let bits = if proxy.is_some() { bits | 4 } else { bits & !4 };
            let abilities = abilities.then_some(Abilities { versions, capabilities: Capabilities(bits) });
            let hello = Hello { id, group, member, session, abilities, proxy, branch: &branch };
            let bytes = hello.emit();
            prop_assert_eq!(Hello::parse(&bytes), Ok(hello));
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = Header::parse(&bytes);
            let _ = Hello::parse(&bytes);
        }

        #[test]
        fn a_report_of_an_unknown_context_is_no_packet(flow in 0..=FLOW_MAX) {
            let datagram = unknown_context(flow);
            prop_assert_eq!(flow_of_unknown_context(&datagram), Some(flow));
            prop_assert!(Header::parse(&[datagram.as_slice(), &[0; HEADER_LEN]].concat()).is_err());
            prop_assert!(!is_padding(&datagram) && flow_of_unknown_context(&[PADDING; 3]).is_none());
        }
    }

    #[test]
    fn errors_name_the_field() {
        let (session, proxy, abilities) = ([7; 16], None, None);
        let good =
            Hello { id: 1, group: 0, member: 3, session, abilities, proxy, branch: "b1" }.emit();
        for (byte, field) in [(0, "hello magic"), (4, "hello form"), (25, "branch name")] {
            let mut bad = good.clone();
            bad[byte] = 0xff;
            assert_eq!(Hello::parse(&bad).unwrap_err().field, field);
        }
        for len in [0, 3, 4, 24, 25] {
            assert_eq!(Hello::parse(&good[..len]).unwrap_err().field, "hello length");
        }
        assert_eq!(
            Hello::parse(&[good, vec![b'a'; 62]].concat()).unwrap_err().field,
            "hello length"
        );
        assert_eq!(Header::parse(&[0xff; HEADER_LEN]).unwrap_err().field, "form");
        assert_eq!(Header::parse(&[0; HEADER_LEN - 1]).unwrap_err().field, "datagram length");
    }
}
