//! Keying material of an SA.

use std::fmt;

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, LessSafeKey, Nonce, UnboundKey};

use crate::IV_LEN;

const SALT_LEN: usize = 4;

/// Keying material of one direction (RFC 4106 section 8.1): a key of 16 or 32 bytes, and a salt of 4.
#[derive(Clone, PartialEq, Eq)]
pub struct Keys {
    key: Vec<u8>,
    salt: [u8; SALT_LEN],
}

impl Keys {
    /// Parses keying material: the key followed by the salt. `None` if the key length is neither that of AES-128 nor
    /// of AES-256.
    #[must_use]
    pub fn new(material: &[u8]) -> Option<Self> {
        let (key, salt) = material.split_last_chunk::<SALT_LEN>()?;
        matches!(key.len(), 16 | 32).then(|| Self { key: key.to_vec(), salt: *salt })
    }

    /// Length of the key, bits.
    #[must_use]
    pub fn bits(&self) -> usize {
        self.key.len() * 8
    }

    /// The key ready for use; `None` if the library rejects it.
    pub(crate) fn cipher(&self) -> Option<Cipher> {
        let algorithm = if self.key.len() == 16 { &AES_128_GCM } else { &AES_256_GCM };
        let key = UnboundKey::new(algorithm, &self.key).ok()?;
        Some(Cipher { key: LessSafeKey::new(key), salt: self.salt })
    }
}

impl std::ops::Drop for Keys {
    fn drop(&mut self) {
        self.key.fill(0);
        std::hint::black_box(&self.key); // keeps the compiler from removing the fill
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keys({} bits)", self.bits())
    }
}

/// A key and salt ready for use.
pub(crate) struct Cipher {
    pub(crate) key: LessSafeKey,
    salt: [u8; SALT_LEN],
}

impl Cipher {
    /// The nonce of a packet (RFC 4106 section 4).
    pub(crate) fn nonce(&self, iv: [u8; IV_LEN]) -> Nonce {
        let mut nonce = [0; SALT_LEN + IV_LEN];
        let bytes = self.salt.iter().chain(&iv);
        nonce.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        Nonce::assume_unique_for_key(nonce)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_names_the_algorithm() {
        assert_eq!(Keys::new(&[1; 20]).unwrap().bits(), 128);
        assert_eq!(Keys::new(&[1; 36]).unwrap().bits(), 256);
        for wrong in [0, 3, 4, 19, 28, 37] {
            assert!(Keys::new(&vec![1; wrong]).is_none(), "{wrong}");
        }
    }

    #[test]
    fn nothing_of_a_key_is_shown() {
        assert_eq!(format!("{:?}", Keys::new(&[7; 36]).unwrap()), "Keys(256 bits)");
    }
}
