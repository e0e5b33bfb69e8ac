//! UDP (RFC 768).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------------------------------+-------------------------------+
//! |          Source Port          |       Destination Port        |
//! +-------------------------------+-------------------------------+
//! |            Length             |           Checksum            |
//! +-------------------------------+-------------------------------+
//! ```

use crate::bytes;

/// Length of a header, bytes.
pub const HEADER_LEN: usize = 8;

/// Byte ranges of the header's fields.
pub(crate) mod field {
    use std::ops::Range;

    pub(crate) const SOURCE_PORT: Range<usize> = 0..2;
    pub(crate) const DESTINATION_PORT: Range<usize> = 2..4;
    pub(crate) const LENGTH: Range<usize> = 4..6;
    pub(crate) const CHECKSUM: Range<usize> = 6..8;
}

/// A view of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    header: &'a [u8; HEADER_LEN],
    payload: &'a [u8],
}

impl<'a> Datagram<'a> {
    /// Parses a datagram, which padding may follow. `None` if its length exceeds `bytes`.
    #[must_use]
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (header, rest) = bytes.split_first_chunk::<HEADER_LEN>()?;
        let length = usize::from(u16::from_be_bytes(bytes::field(header, field::LENGTH)));
        let payload = rest.get(..length.checked_sub(HEADER_LEN)?)?;
        Some(Self { header, payload })
    }

    /// Destination port.
    #[must_use]
    pub fn destination_port(&self) -> u16 {
        u16::from_be_bytes(bytes::field(self.header, field::DESTINATION_PORT))
    }

    /// The payload, without padding.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// The values of a header. The checksum is 0, which over IPv4 means none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
}

impl Repr {
    /// The header of a datagram with `payload_len` bytes of payload, or `None` if the datagram would be
    /// longer than 65535 bytes.
    #[must_use]
    pub fn emit(&self, payload_len: usize) -> Option<[u8; HEADER_LEN]> {
        let length = u16::try_from(HEADER_LEN + payload_len).ok()?;
        let mut header = [0; HEADER_LEN];
        header[field::SOURCE_PORT].copy_from_slice(&self.source_port.to_be_bytes());
        header[field::DESTINATION_PORT].copy_from_slice(&self.destination_port.to_be_bytes());
        header[field::LENGTH].copy_from_slice(&length.to_be_bytes());
        Some(header)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn padding_is_not_payload(payload: Vec<u8>, padding: Vec<u8>, port: u16) {
            let repr = Repr { source_port: 1, destination_port: port };
            let header = repr.emit(payload.len()).unwrap();
            let bytes = [&header[..], &payload, &padding].concat();
            let datagram = Datagram::parse(&bytes).unwrap();
            prop_assert_eq!((datagram.destination_port(), datagram.payload()), (port, &payload[..]));
        }

        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            let _ = Datagram::parse(&bytes);
        }
    }
}
