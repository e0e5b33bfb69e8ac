//! Encapsulating Security Payload (RFC 4303), and how UDP carries it (RFC 3948): the framing. What is
//! encrypted is bytes here.

use crate::Malformed;

/// Length of the part in front of the payload.
pub const HEADER_LEN: usize = 8;
/// Protocol number (IANA).
pub const PROTOCOL: u8 = 50;
/// UDP port of encapsulated packets (RFC 3948 section 2.1).
pub const UDP_PORT: u16 = 4500;
/// First identifier of an association that is not reserved (RFC 4303 section 2.1).
pub const SPI_MIN: u32 = 256;

const TRAILER_LEN: usize = 2;
const KEEPALIVE: u8 = 0xff;

/// A packet whose payload is not decrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    header: &'a [u8; HEADER_LEN],
    body: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Reads a packet. An identifier of 0 never stands on a wire (RFC 4303 section 2.1).
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
        let [a, b, c, d, ..] = *self.header;
        u32::from_be_bytes([a, b, c, d])
    }

    /// Sequence number; the low half of an extended one (RFC 4303 section 2.2.1).
    #[must_use]
    pub fn sequence(&self) -> u32 {
        let [.., a, b, c, d] = *self.header;
        u32::from_be_bytes([a, b, c, d])
    }

    /// Payload, trailer and integrity check value, as the algorithm left them.
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

/// The values of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Security parameters index: at least 1.
    pub spi: u32,
    /// Sequence number.
    pub sequence: u32,
}

impl Repr {
    /// The header; none for the index 0.
    #[must_use]
    pub fn emit(&self) -> Option<[u8; HEADER_LEN]> {
        let both = u64::from(self.spi) << 32 | u64::from(self.sequence);
        (self.spi != 0).then_some(both.to_be_bytes())
    }
}

/// What is inside, once decrypted: payload data and the protocol they belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plain<'a> {
    /// Protocol number of the data; 59 marks a dummy packet (RFC 4303 section 2.6).
    pub next_header: u8,
    /// The data.
    pub data: &'a [u8],
}

impl<'a> Plain<'a> {
    /// Reads decrypted bytes without integrity check value. Padding must count 1, 2, 3 and so on, where
    /// the algorithm says nothing else (RFC 4303 section 2.4).
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let offset = bytes.len().saturating_sub(TRAILER_LEN);
        let wrong = |field, found: u64, expected| Err(Malformed { field, offset, found, expected });
        let Some((rest, [pad_len, next_header])) = bytes.split_last_chunk::<TRAILER_LEN>() else {
            return wrong("ESP trailer", bytes.len() as u64, "2 bytes or more");
        };
        let data_len = rest.len().checked_sub(usize::from(*pad_len));
        let Some((data, padding)) = data_len.and_then(|len| rest.split_at_checked(len)) else {
            return wrong("ESP pad length", (*pad_len).into(), "at most what is there");
        };
        if !(1..=u8::MAX).zip(padding).all(|(expected, found)| expected == *found) {
            return wrong("ESP padding", (*pad_len).into(), "1, 2, 3 and so on");
        }
        Ok(Self { next_header: *next_header, data })
    }

    /// The bytes to encrypt: padded to a multiple of `block` and of 4 (RFC 4303 section 2.4); none where
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

/// What a datagram of port 4500 carries (RFC 3948 section 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InUdp<'a> {
    /// A packet.
    Esp(Packet<'a>),
    /// A message of IKE, behind its marker of four zeros.
    Ike(&'a [u8]),
    /// Keeps a mapping of an address translator alive.
    Keepalive,
}

impl<'a> InUdp<'a> {
    /// Reads the payload of a datagram.
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
            prop_assert_eq!(InUdp::parse(&bytes).unwrap(), InUdp::Esp(packet));
        }

        #[test]
        fn padding_comes_off_again(next_header: u8, data: Vec<u8>, block in 0..=64_usize) {
            let plain = Plain { next_header, data: &data };
            let bytes = plain.emit(block).unwrap();
            prop_assert_eq!(bytes.len() % block.max(4).next_multiple_of(4), 0);
            prop_assert_eq!(Plain::parse(&bytes).unwrap(), plain);
        }

        #[test]
        fn anything_can_be_read(bytes: Vec<u8>) {
            let _ = (Plain::parse(&bytes), InUdp::parse(&bytes));
        }
    }

    #[test]
    fn each_malformed_field_is_named() {
        assert_eq!(Packet::parse(&[1; 7]).unwrap_err().field, "ESP length");
        assert_eq!(Packet::parse(&[0; 8]).unwrap_err().field, "ESP SPI");
        assert_eq!(Plain::parse(&[4]).unwrap_err().field, "ESP trailer");
        assert_eq!(Plain::parse(&[1, 2, 3, 4]).unwrap_err().field, "ESP pad length");
        assert_eq!(Plain::parse(&[1, 3, 2, 4]).unwrap_err().field, "ESP padding");
        assert_eq!(Repr { spi: 0, sequence: 1 }.emit(), None);
    }

    #[test]
    fn one_port_carries_three_things() {
        assert_eq!(InUdp::parse(&[0xff]).unwrap(), InUdp::Keepalive);
        assert_eq!(InUdp::parse(&[0, 0, 0, 0, 9]).unwrap(), InUdp::Ike(&[9]));
        assert!(InUdp::parse(&[0xff, 0xff]).is_err());
    }
}
