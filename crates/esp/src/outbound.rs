//! The sender's side of an SA.

use aws_lc_rs::aead::Aad;
use hawser_wire::esp::Repr;

use crate::{
    FRONT, ICV_LEN,
    keys::{Cipher, Keys},
};

/// Pad length and next header (RFC 4303 sections 2.5 and 2.6).
const TRAILER_LEN: usize = 2;
/// Alignment of the encrypted part, bytes (RFC 4303 section 2.4, RFC 4106 section 3.2).
const ALIGNMENT: usize = 4;

/// Why a packet cannot be encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The sequence numbers are exhausted (RFC 4303 section 3.3.3): the SA must be rekeyed.
    #[error("ESP: all sequence numbers are used up")]
    Exhausted,
    /// The buffer's length is not [`sealed_len`].
    #[error("ESP: no room for the packet")]
    NoRoom,
}

/// Length of an ESP packet with `len` bytes of data.
#[must_use]
pub const fn sealed_len(len: usize) -> usize {
    FRONT + (len + TRAILER_LEN).next_multiple_of(ALIGNMENT) + ICV_LEN
}

/// An outbound SA.
pub struct Outbound {
    spi: u32,
    cipher: Cipher,
    /// Sequence number of the last packet.
    sequence: u32,
}

impl Outbound {
    /// A new SA; `None` if the SPI is 0 or the keys cannot be used.
    #[must_use]
    pub fn new(spi: u32, keys: &Keys) -> Option<Self> {
        (spi != 0).then(|| Some(Self { spi, cipher: keys.cipher()?, sequence: 0 })).flatten()
    }

    /// Security parameters index.
    #[must_use]
    pub fn spi(&self) -> u32 {
        self.spi
    }

    /// Packets sent, which is the sequence number of the last.
    #[must_use]
    pub fn sealed(&self) -> u32 {
        self.sequence
    }

    /// Writes an ESP packet to `out`, whose length must be [`sealed_len`] of `len`. `write` fills the `len` bytes of
    /// data, whose protocol is `next_header`.
    pub fn seal(
        &mut self,
        next_header: u8,
        len: usize,
        out: &mut [u8],
        write: impl FnOnce(&mut [u8]),
    ) -> Result<(), Error> {
        if out.len() != sealed_len(len) {
            return Err(Error::NoRoom);
        }
        let sequence = self.sequence.checked_add(1).ok_or(Error::Exhausted)?;
        let header = Repr { spi: self.spi, sequence }.emit().ok_or(Error::NoRoom)?;
        // A sequence number is used once per key, as the initialization vector must be (RFC 4106 section 3.1).
        let iv = u64::from(sequence).to_be_bytes();
        let (front, rest) = out.split_first_chunk_mut::<FRONT>().ok_or(Error::NoRoom)?;
        front.iter_mut().zip(header.iter().chain(&iv)).for_each(|(to, from)| *to = *from);
        let (body, icv) = rest.split_last_chunk_mut::<ICV_LEN>().ok_or(Error::NoRoom)?;
        let (data, trailer) = body.split_at_mut_checked(len).ok_or(Error::NoRoom)?;
        write(data);
        finish(trailer, next_header);
        self.sequence = sequence;
        let (nonce, aad) = (self.cipher.nonce(iv), Aad::from(header));
        let tag = self.cipher.key.seal_in_place_separate_tag(nonce, aad, body);
        let tag = tag.map_err(|_| Error::NoRoom)?;
        icv.iter_mut().zip(tag.as_ref()).for_each(|(to, from)| *to = *from);
        Ok(())
    }
}

/// Writes padding, pad length and next header.
fn finish(trailer: &mut [u8], next_header: u8) {
    let Some((padding, [pad_len, next])) = trailer.split_last_chunk_mut::<TRAILER_LEN>() else {
        return;
    };
    *pad_len = 0;
    for (byte, number) in padding.iter_mut().zip(1..) {
        (*byte, *pad_len) = (number, number);
    }
    *next = next_header;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_end() {
        let mut outbound = Outbound::new(256, &Keys::new(&[1; 20]).unwrap()).unwrap();
        outbound.sequence = u32::MAX - 1;
        let mut out = vec![0; sealed_len(5)];
        assert_eq!(outbound.seal(4, 5, &mut out, |_| {}), Ok(()));
        assert_eq!(out[4..8], u32::MAX.to_be_bytes());
        for _ in 0..3 {
            assert_eq!(outbound.seal(4, 5, &mut out, |_| {}), Err(Error::Exhausted));
            assert_eq!(outbound.sealed(), u32::MAX, "none is used twice");
        }
    }

    #[test]
    fn the_buffer_must_fit() {
        let mut outbound = Outbound::new(256, &Keys::new(&[1; 20]).unwrap()).unwrap();
        for len in [0, 35, 37, 100] {
            assert_eq!(outbound.seal(4, 2, &mut vec![0; len], |_| {}), Err(Error::NoRoom));
        }
        assert!(Outbound::new(0, &Keys::new(&[1; 20]).unwrap()).is_none());
    }
}
