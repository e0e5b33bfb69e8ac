//! Records: how IP packets travel on a byte stream between two gateways.
//!
//! ```text
//! byte  0        1        2        3 ...
//!       kind     length (big-endian)  `length` bytes, then 8 more for Segments
//! ```
//!
//! | kind | record | the `length` bytes |
//! |---|---|---|
//! | 1 | [`Record::Hello`]: first record each way | see [`Hello`] |
//! | 2 | [`Record::Keepalive`] | none |
//! | 3 | [`Record::Packet`]: an IP packet as it would be on a wire | the packet |
//! | 4 | [`Record::Segments`]: a packet of up to 65535 bytes, still to be cut into segments | the packet; a [`Segmentation`] follows it |
//!
//! The segmentation stands behind its packet so that a sender, who learns from the kernel whether a
//! packet is one of these while reading it, can always put the packet at the same distance from the start.

mod decoder;
mod hello;
mod segmentation;

pub use decoder::Decoder;
pub use hello::{Hello, MAX_NAME_LEN};
pub use segmentation::{Protocol, Segmentation};

use crate::{
    Malformed,
    field::{clamp, put},
    ip, segment,
};

/// Bytes before a record's body: kind and length.
pub const HEADER_LEN: usize = 3;

/// Bytes of the longest record.
pub const MAX_LEN: usize = HEADER_LEN + u16::MAX as usize + Segmentation::LEN;

const HELLO: u8 = 1;
const KEEPALIVE: u8 = 2;
const PACKET: u8 = 3;
const SEGMENTS: u8 = 4;

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// Who speaks.
    Hello(Hello<'a>),
    /// Nothing but that the speaker lives.
    Keepalive,
    /// One packet, its checksums complete.
    Packet(ip::Packet<'a>),
    /// A packet that the receiver's kernel cuts into segments, its checksum still to be completed.
    Segments(ip::Packet<'a>, Segmentation),
}

impl<'a> Record<'a> {
    /// Reads the record at the start of `bytes` and says how long it is; None while it is incomplete.
    pub fn parse(bytes: &'a [u8]) -> Result<Option<(Self, usize)>, Malformed> {
        let Some((&[kind, high, low], rest)) = bytes.split_first_chunk::<HEADER_LEN>() else {
            return Ok(None);
        };
        let len = usize::from(u16::from_be_bytes([high, low]));
        let trailer = trailer_len(kind)?;
        check_length(kind, len)?;
        let (Some(body), Some(trailer)) = (rest.get(..len), rest.get(len..len + trailer)) else {
            return Ok(None);
        };
        let record = match kind {
            HELLO => Self::Hello(Hello::parse(body)?),
            KEEPALIVE => Self::Keepalive,
            SEGMENTS => {
                let packet = ip::Packet::parse(body)?;
                Self::Segments(packet, Segmentation::parse(trailer, &packet)?)
            }
            _ => Self::Packet(ip::Packet::parse(body)?),
        };
        Ok(Some((record, HEADER_LEN + len + trailer.len())))
    }
}

/// Bytes after the body; an error for a kind that does not exist.
fn trailer_len(kind: u8) -> Result<usize, Malformed> {
    match kind {
        HELLO | KEEPALIVE | PACKET => Ok(0),
        SEGMENTS => Ok(Segmentation::LEN),
        found => Err(Malformed {
            field: "record kind",
            offset: 0,
            found: u64::from(found),
            expected: "1 to 4",
        }),
    }
}

/// Refuses impossible lengths before the body has arrived, so that nobody waits for it.
fn check_length(kind: u8, len: usize) -> Result<(), Malformed> {
    let (ok, expected) = match kind {
        HELLO => (Hello::LENGTHS.contains(&len), "9 to 71 for a hello"),
        KEEPALIVE => (len == 0, "0 for a keepalive"),
        _ => (len >= crate::ipv4::HEADER_LEN, "20 or more for a packet"),
    };
    if ok {
        return Ok(());
    }
    Err(Malformed { field: "record length", offset: 1, found: len as u64, expected })
}

/// Length of the record at the start of `bytes`, which begin with a whole record that was emitted here;
/// None where they do not.
#[must_use]
pub fn emitted_len(bytes: &[u8]) -> Option<usize> {
    let &[kind, high, low] = bytes.first_chunk()?;
    let len = HEADER_LEN + usize::from(u16::from_be_bytes([high, low])) + trailer_len(kind).ok()?;
    (len <= bytes.len()).then_some(len)
}

/// Takes the first segment out of the whole record of a packet that is still to be cut, in place: what is
/// left is a record that begins that many bytes later. None, and nothing is changed, where it does not
/// carry several segments.
pub fn drop_segment(record: &mut [u8]) -> Option<usize> {
    let Ok(Some((Record::Segments(packet, cut), _))) = Record::parse(record) else { return None };
    let len = packet.bytes().len();
    let gone = segment::drop_first(record.get_mut(HEADER_LEN..HEADER_LEN + len)?, cut)?;
    record.copy_within(..HEADER_LEN, gone);
    put(record, gone + 1, clamp(len - gone));
    Some(gone)
}

/// The header of a record that carries a packet of `len` bytes.
#[must_use]
pub const fn packet_header(len: u16, segments: bool) -> [u8; HEADER_LEN] {
    let [high, low] = len.to_be_bytes();
    [if segments { SEGMENTS } else { PACKET }, high, low]
}

/// A whole keepalive record.
pub const KEEPALIVE_RECORD: [u8; HEADER_LEN] = [KEEPALIVE, 0, 0];

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ipv4::{Repr, protocol};

    /// A TCP packet of `payload` bytes behind its headers.
    pub(crate) fn tcp_packet(payload: usize) -> Vec<u8> {
        let (source, destination) = ([10, 1, 0, 1].into(), [10, 2, 0, 1].into());
        let repr = Repr { source, destination, protocol: protocol::TCP, ttl: 64 };
        let mut bytes = repr.emit(20 + payload).unwrap().to_vec();
        bytes.resize(40 + payload, 0);
        bytes[32] = 0x50;
        bytes
    }

    /// An owned record, to be emitted and compared with.
    #[derive(Clone, Debug)]
    pub(crate) enum Owned {
        Hello(u8, u8, String),
        Keepalive,
        Packet(usize),
        Segments(usize, u16),
    }

    impl Owned {
        pub(crate) fn emit(&self, out: &mut Vec<u8>) {
            match self {
                Self::Hello(id, group, name) => {
                    Hello { id: *id, group: *group, branch: name }.emit(out);
                }
                Self::Keepalive => out.extend(KEEPALIVE_RECORD),
                Self::Packet(len) => emit_packet(&tcp_packet(*len), None, out),
                Self::Segments(len, size) => {
                    let cut = Segmentation::new(Protocol::TcpV4, *size, 20, 16, false);
                    emit_packet(&tcp_packet(*len), Some(cut), out);
                }
            }
        }

        pub(crate) fn is(&self, record: &Record<'_>) -> bool {
            match (self, record) {
                (Self::Hello(id, group, name), Record::Hello(hello)) => {
                    (hello.id, hello.group, hello.branch) == (*id, *group, name.as_str())
                }
                (Self::Keepalive, Record::Keepalive) => true,
                (Self::Packet(len), Record::Packet(packet)) => packet.bytes() == tcp_packet(*len),
                (Self::Segments(len, size), Record::Segments(packet, cut)) => {
                    packet.bytes() == tcp_packet(*len) && cut.size() == *size
                }
                _ => false,
            }
        }
    }

    fn emit_packet(packet: &[u8], cut: Option<Segmentation>, out: &mut Vec<u8>) {
        out.extend(packet_header(u16::try_from(packet.len()).unwrap(), cut.is_some()));
        out.extend_from_slice(packet);
        out.extend(cut.into_iter().flat_map(|cut| cut.emit()));
    }

    pub(crate) fn any_record() -> impl Strategy<Value = Owned> {
        prop_oneof![
            (1..16_u8, 0..16_u8, "[a-z][a-z0-9-]{0,62}")
                .prop_map(|(i, g, n)| Owned::Hello(i, g, n)),
            Just(Owned::Keepalive),
            (0..1500_usize).prop_map(Owned::Packet),
            (1..65495_usize, 1..1460_u16).prop_map(|(len, size)| Owned::Segments(len, size)),
        ]
    }

    #[test]
    fn a_record_loses_one_segment_at_a_time() {
        let mut bytes = Vec::new();
        Owned::Segments(2500, 1000).emit(&mut bytes);
        let whole = bytes.len();
        for left in [1500, 500] {
            let gone = drop_segment(&mut bytes).unwrap();
            bytes.drain(..gone);
            let (record, len) = Record::parse(&bytes).unwrap().unwrap();
            let Record::Segments(packet, _) = record else { panic!("{record:?}") };
            assert_eq!((gone, len, packet.bytes().len()), (1000, bytes.len(), 40 + left));
        }
        assert_eq!(drop_segment(&mut bytes), None);
        assert_eq!(bytes.len(), whole - 2000);
        assert_eq!(drop_segment(&mut KEEPALIVE_RECORD.clone()), None);
    }

    proptest! {
        #[test]
        fn what_is_emitted_parses(record in any_record()) {
            let mut bytes = Vec::new();
            record.emit(&mut bytes);
            prop_assert_eq!(emitted_len(&bytes), Some(bytes.len()));
            let (parsed, len) = Record::parse(&bytes).unwrap().unwrap();
            prop_assert_eq!(len, bytes.len());
            prop_assert!(record.is(&parsed));
        }

        #[test]
        fn an_incomplete_record_is_no_error(record in any_record(), cut: prop::sample::Index) {
            let mut bytes = Vec::new();
            record.emit(&mut bytes);
            bytes.truncate(cut.index(bytes.len()));
            prop_assert_eq!(Record::parse(&bytes), Ok(None));
            prop_assert_eq!(emitted_len(&bytes), None);
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            if let Ok(Some((_, len))) = Record::parse(&bytes) {
                prop_assert!(len <= bytes.len());
            }
        }
    }

    #[test]
    fn impossible_lengths_are_refused_at_once() {
        for bytes in [[0, 0, 0], [5, 0, 0], [2, 0, 1], [3, 0, 19], [1, 0, 8], [1, 0, 72]] {
            assert!(Record::parse(&bytes).is_err(), "{bytes:?}");
        }
    }
}
