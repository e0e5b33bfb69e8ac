//! The direction in which packets leave.

use aws_lc_rs::aead::Aad;
use hawser_wire::esp::Repr;

use crate::{
    FRONT, ICV_LEN,
    keys::{Cipher, Keys},
};

/// Pad length and next header (RFC 4303 sections 2.5 and 2.6).
const TRAILER_LEN: usize = 2;
/// What is encrypted ends at a multiple of this (RFC 4303 section 2.4, RFC 4106 section 3.2).
const ALIGNMENT: usize = 4;

/// Why a packet is not sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// All sequence numbers are used up (RFC 4303 section 3.3.3): the keys must be renewed.
    #[error("ESP: all sequence numbers are used up")]
    Exhausted,
    /// The buffer does not have the length that [`sealed_len`] says.
    #[error("ESP: no room for the packet")]
    NoRoom,
}

/// Bytes of a sealed packet with `len` bytes of data.
#[must_use]
pub const fn sealed_len(len: usize) -> usize {
    FRONT + (len + TRAILER_LEN).next_multiple_of(ALIGNMENT) + ICV_LEN
}

/// The association for one direction of a tunnel, at its sender.
pub struct Outbound {
    spi: u32,
    cipher: Cipher,
    /// Of the packet that was sealed last.
    sequence: u32,
}

impl Outbound {
    /// An association that has sealed nothing yet; none where the identifier is 0, or the keys cannot be
    /// used.
    #[must_use]
    pub fn new(spi: u32, keys: &Keys) -> Option<Self> {
        (spi != 0).then(|| Some(Self { spi, cipher: keys.cipher()?, sequence: 0 })).flatten()
    }

    /// Security parameters index.
    #[must_use]
    pub fn spi(&self) -> u32 {
        self.spi
    }

    /// Packets sealed so far: the number of the last.
    #[must_use]
    pub fn sealed(&self) -> u32 {
        self.sequence
    }

    /// Writes one packet into `out`, whose length is [`sealed_len`] of `len`. `write` is given the place
    /// for the `len` bytes of data, of the protocol `next_header`.
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
        // The number of the packet is never used twice with one key, so it serves as vector, too.
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

/// Writes padding, its length and the next header.
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
