//! Records: IP packets on a byte stream between two gateways (the `mptcp` transport).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+-------------------------------+---------------+
//! |     Kind      |            Length             |               |
//! +---------------+-------------------------------+               +
//! |   Body (Length bytes)                                         |
//! +---------------------------------------------------------------+
//! |   Segmentation (8 bytes, kind 4 only)                         |
//! +---------------------------------------------------------------+
//! ```
//!
//! | Kind | Record | Body |
//! |---|---|---|
//! | 1 | [`Record::Hello`]: first record in each direction | see [`Hello`] |
//! | 2 | [`Record::Keepalive`] | none |
//! | 3 | [`Record::Packet`]: an IP packet as on a wire | the packet |
//! | 4 | [`Record::Segments`]: a GSO packet of up to 65535 bytes | the packet; a [`Segmentation`] follows it |
//!
//! The segmentation follows the packet because the kernel reports it together with the packet: the sender
//! can then read every packet to the same offset.

mod decoder;
mod hello;
mod segmentation;

pub use decoder::Decoder;
pub use hello::{Hello, MAX_NAME_LEN};
pub use segmentation::{Protocol, Segmentation};

use crate::{
    Malformed,
    bytes::{clamp, put},
    ip, segment,
};

/// Length of the fields before the body, kind and length, in bytes.
pub const HEADER_LEN: usize = 3;

/// Length of the longest record, bytes.
pub const MAX_LEN: usize = HEADER_LEN + u16::MAX as usize + Segmentation::LEN;

const HELLO: u8 = 1;
const KEEPALIVE: u8 = 2;
const PACKET: u8 = 3;
const SEGMENTS: u8 = 4;

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// Identifies the sender.
    Hello(Hello<'a>),
    /// Keeps an idle connection alive.
    Keepalive,
    /// One packet, with complete checksums.
    Packet(ip::Packet<'a>),
    /// A GSO packet: the receiver's kernel segments it and completes its checksum.
    Segments(ip::Packet<'a>, Segmentation),
}

impl<'a> Record<'a> {
    /// Parses the record at the start of `bytes`, and returns it with its length. `None` if it is
    /// incomplete.
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

/// Bytes after the body. An error for an unknown kind.
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

/// Refuses impossible lengths before the body has arrived, so that the receiver does not wait for it.
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

/// Length of the record at the start of `bytes`, a record that was emitted here. `None` if it is not
/// complete.
#[must_use]
pub fn emitted_len(bytes: &[u8]) -> Option<usize> {
    let &[kind, high, low] = bytes.first_chunk()?;
    let len = HEADER_LEN + usize::from(u16::from_be_bytes([high, low])) + trailer_len(kind).ok()?;
    (len <= bytes.len()).then_some(len)
}

/// Removes the first segment from the record of a GSO packet, in place. The remaining record starts at the
/// returned offset. Returns `None`, and changes nothing, if the record has fewer than two segments.
pub fn drop_first_segment(record: &mut [u8]) -> Option<usize> {
    let Ok(Some((Record::Segments(packet, segmentation), _))) = Record::parse(record) else {
        return None;
    };
    let len = packet.bytes().len();
    let body = record.get_mut(HEADER_LEN..HEADER_LEN + len)?;
    let removed = segment::drop_first(body, segmentation)?;
    record.copy_within(..HEADER_LEN, removed);
    put(record, removed + 1, clamp(len - removed));
    Some(removed)
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
            let gone = drop_first_segment(&mut bytes).unwrap();
            bytes.drain(..gone);
            let (record, len) = Record::parse(&bytes).unwrap().unwrap();
            let Record::Segments(packet, _) = record else { panic!("{record:?}") };
            assert_eq!((gone, len, packet.bytes().len()), (1000, bytes.len(), 40 + left));
        }
        assert_eq!(drop_first_segment(&mut bytes), None);
        assert_eq!(bytes.len(), whole - 2000);
        assert_eq!(drop_first_segment(&mut KEEPALIVE_RECORD.clone()), None);
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
