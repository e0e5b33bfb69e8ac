//! The framing of ESP, the Encapsulating Security Payload (RFC 4303), and of ESP in UDP (RFC 3948).
//! Encryption is in crate `hawser-esp`; to this file the encrypted part is opaque.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! |               Security Parameters Index (SPI)                 |   RFC 4303 section 2
//! +---------------------------------------------------------------+
//! |                        Sequence Number                        |
//! +---------------------------------------------------------------+
//! |                  Payload Data (variable)                      | \
//! +               +-----------------------------------------------+  |
//! |               |     Padding (0-255 bytes)                     |  | encrypted
//! +---------------+               +---------------+---------------+  |
//! |                               |  Pad Length   |  Next Header  | /
//! +-------------------------------+---------------+---------------+
//! |         Integrity Check Value (ICV, variable)                 |
//! +---------------------------------------------------------------+
//! ```

use crate::{Malformed, bytes};

/// Bytes before the payload: SPI and sequence number.
pub const HEADER_LEN: usize = 8;
/// IP protocol number of ESP (IANA).
pub const PROTOCOL: u8 = 50;
/// UDP port of ESP and IKE behind NAT (IANA `ipsec-nat-t`; RFC 7296 section 2.23).
pub const UDP_PORT: u16 = 4500;
/// Lowest SPI that is not reserved (RFC 4303 section 2.1).
pub const SPI_MIN: u32 = 256;

/// Bytes of the pad length and next header fields.
const TRAILER_LEN: usize = 2;
/// The one byte of a NAT keepalive (RFC 3948 section 2.3).
const KEEPALIVE: u8 = 0xff;

mod field {
    use std::ops::Range;

    pub(super) const SPI: Range<usize> = 0..4;
    pub(super) const SEQUENCE: Range<usize> = 4..8;
}

/// A view of an encrypted packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    header: &'a [u8; HEADER_LEN],
    body: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Parses a packet. SPI 0 must not be on the wire (RFC 4303 section 2.1).
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let wrong =
            |field, found: u64, expected| Err(Malformed { field, offset: 0, found, expected });
        let Some((header, body)) = bytes.split_first_chunk::<HEADER_LEN>() else {
            return wrong("ESP length", bytes.len() as u64, "8 bytes or more");
        };
        let packet = Self { header, body };
        if packet.spi() == 0 { wrong("ESP SPI", 0, "not 0") } else { Ok(packet) }
    }

    /// Security parameters index.
    #[must_use]
    pub fn spi(&self) -> u32 {
        u32::from_be_bytes(bytes::field(self.header, field::SPI))
    }

    /// Sequence number; the low 32 bits of an extended one (RFC 4303 section 2.2.1).
    #[must_use]
    pub fn sequence(&self) -> u32 {
        u32::from_be_bytes(bytes::field(self.header, field::SEQUENCE))
    }

    /// Payload, trailer and ICV, encrypted.
    #[must_use]
    pub fn body(&self) -> &'a [u8] {
        self.body
    }

    /// The values of the header.
    #[must_use]
    pub fn repr(&self) -> Repr {
        Repr { spi: self.spi(), sequence: self.sequence() }
    }
}

/// The values of an ESP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Security parameters index, not 0.
    pub spi: u32,
    /// Sequence number.
    pub sequence: u32,
}

impl Repr {
    /// The header, or `None` for SPI 0.
    #[must_use]
    pub fn emit(&self) -> Option<[u8; HEADER_LEN]> {
        let both = u64::from(self.spi) << 32 | u64::from(self.sequence);
        (self.spi != 0).then_some(both.to_be_bytes())
    }
}

/// A decrypted payload, and its protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plaintext<'a> {
    /// IP protocol number of the data; 59 for a dummy packet (RFC 4303 section 2.6).
    pub next_header: u8,
    /// Payload data.
    pub data: &'a [u8],
}

impl<'a> Plaintext<'a> {
    /// Parses decrypted bytes without ICV. Padding must be 1, 2, 3, ..., the default of RFC 4303 section
    /// 2.4.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let offset = bytes.len().saturating_sub(TRAILER_LEN);
        let wrong = |field, found: u64, expected| Err(Malformed { field, offset, found, expected });
        let Some((rest, [pad_len, next_header])) = bytes.split_last_chunk::<TRAILER_LEN>() else {
            return wrong("ESP trailer", bytes.len() as u64, "2 bytes or more");
        };
        let data_len = rest.len().checked_sub(usize::from(*pad_len));
        let Some((data, padding)) = data_len.and_then(|len| rest.split_at_checked(len)) else {
            return wrong("ESP pad length", (*pad_len).into(), "at most the bytes before it");
        };
        if !(1..=u8::MAX).zip(padding).all(|(expected, found)| expected == *found) {
            return wrong("ESP padding", (*pad_len).into(), "1, 2, 3 and so on");
        }
        Ok(Self { next_header: *next_header, data })
    }

    /// The bytes to encrypt, padded to a multiple of `block` and of 4 (RFC 4303 section 2.4). `None` if
    /// that takes more than 255 bytes of padding.
    #[must_use]
    pub fn emit(&self, block: usize) -> Option<Vec<u8>> {
        let block = block.max(4).next_multiple_of(4);
        let length = self.data.len().checked_add(TRAILER_LEN)?;
        let pad_len = u8::try_from(length.checked_next_multiple_of(block)? - length).ok()?;
        let mut bytes = self.data.to_vec();
        bytes.extend(1..=pad_len);
        bytes.extend([pad_len, self.next_header]);
        Some(bytes)
    }
}

/// The payload of a datagram on port 4500 (RFC 3948 section 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UdpEncapsulated<'a> {
    /// An ESP packet (section 2.1).
    Esp(Packet<'a>),
    /// An IKE message, without its non-ESP marker of four zero bytes (section 2.2).
    Ike(&'a [u8]),
    /// A NAT keepalive (section 2.3).
    Keepalive,
}

impl<'a> UdpEncapsulated<'a> {
    /// Parses the payload of a datagram.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        match bytes {
            [KEEPALIVE] => Ok(Self::Keepalive),
            [0, 0, 0, 0, message @ ..] => Ok(Self::Ike(message)),
            packet => Packet::parse(packet).map(Self::Esp),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_emitted_parses(spi in 1..=u32::MAX, sequence: u32, body: Vec<u8>) {
            let repr = Repr { spi, sequence };
            let bytes = [&repr.emit().unwrap()[..], &body].concat();
            let packet = Packet::parse(&bytes).unwrap();
            prop_assert_eq!((packet.repr(), packet.body()), (repr, &body[..]));
            prop_assert_eq!(UdpEncapsulated::parse(&bytes).unwrap(), UdpEncapsulated::Esp(packet));
        }

        #[test]
        fn padding_is_removed(next_header: u8, data: Vec<u8>, block in 0..=64_usize) {
            let plain = Plaintext { next_header, data: &data };
            let bytes = plain.emit(block).unwrap();
            prop_assert_eq!(bytes.len() % block.max(4).next_multiple_of(4), 0);
            prop_assert_eq!(Plaintext::parse(&bytes).unwrap(), plain);
        }

        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            let _ = (Plaintext::parse(&bytes), UdpEncapsulated::parse(&bytes));
        }
    }

    #[test]
    fn each_malformed_field_is_named() {
        assert_eq!(Packet::parse(&[1; 7]).unwrap_err().field, "ESP length");
        assert_eq!(Packet::parse(&[0; 8]).unwrap_err().field, "ESP SPI");
        assert_eq!(Plaintext::parse(&[4]).unwrap_err().field, "ESP trailer");
        assert_eq!(Plaintext::parse(&[1, 2, 3, 4]).unwrap_err().field, "ESP pad length");
        assert_eq!(Plaintext::parse(&[1, 3, 2, 4]).unwrap_err().field, "ESP padding");
        assert_eq!(Repr { spi: 0, sequence: 1 }.emit(), None);
    }

    #[test]
    fn one_port_carries_esp_ike_and_keepalives() {
        assert_eq!(UdpEncapsulated::parse(&[0xff]).unwrap(), UdpEncapsulated::Keepalive);
        assert_eq!(UdpEncapsulated::parse(&[0, 0, 0, 0, 9]).unwrap(), UdpEncapsulated::Ike(&[9]));
        assert!(UdpEncapsulated::parse(&[0xff, 0xff]).is_err());
    }
}
