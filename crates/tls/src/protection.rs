//! Record protection (RFC 8446 section 5.2), from one buffer into another without allocation.
//!
//! ```text
//! |<----------- header ----------->|<------------ encrypted ------------>|
//! +-----------+----------+---------+---------+--------------+------------+----------+
//! | type (23) | 0x0303   | length  | content | content type | zeros (0+) | tag (16) |
//! |  1 octet  | 2 octets | 2 octets|         |   1 octet    |            |          |
//! +-----------+----------+---------+---------+--------------+------------+----------+
//! ```

use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
};
use rustls::ConnectionTrafficSecrets;

use crate::Error;

/// Largest content of a record, bytes (RFC 8446 section 5.1).
pub const MAX_PLAINTEXT_LEN: usize = 1 << 14;

/// Largest record, bytes: header, content, type, padding and tag (RFC 8446 section 5.2).
pub const MAX_CIPHERTEXT_LEN: usize = HEADER_LEN + MAX_PLAINTEXT_LEN + 256;

/// Length of a record's header, bytes.
pub(crate) const HEADER_LEN: usize = 5;

const TAG_LEN: usize = 16;

/// Overhead of a record, bytes: header, content type, tag.
pub(crate) const OVERHEAD: usize = HEADER_LEN + 1 + TAG_LEN;

/// Content types (RFC 8446 section 5.1).
pub(crate) mod content {
    pub(crate) const CHANGE_CIPHER_SPEC: u8 = 20;
    pub(crate) const ALERT: u8 = 21;
    pub(crate) const HANDSHAKE: u8 = 22;
    pub(crate) const APPLICATION_DATA: u8 = 23;
}

/// Key, nonce and sequence number of one direction.
pub(crate) struct Protection {
    key: LessSafeKey,
    iv: [u8; 12],
    sequence: u64,
}

impl Protection {
    pub(crate) fn new((sequence, secrets): (u64, ConnectionTrafficSecrets)) -> Result<Self, Error> {
        let (algorithm, key, iv) = match &secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv),
            _ => return Err(rustls::Error::General("unknown cipher".into()).into()),
        };
        let bad = |_| rustls::Error::General("unusable traffic key".into());
        let key = UnboundKey::new(algorithm, key.as_ref()).map_err(bad)?;
        let iv = iv.as_ref().first_chunk().copied().ok_or(Error::NoRoom)?;
        Ok(Self { key: LessSafeKey::new(key), iv, sequence })
    }

    /// Records processed so far, which is the next sequence number.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The next record's nonce (RFC 8446 section 5.3).
    fn nonce(&mut self) -> Nonce {
        let mut nonce = self.iv;
        let sequence = self.sequence.to_be_bytes();
        for (byte, count) in nonce.iter_mut().skip(4).zip(sequence) {
            *byte ^= count;
        }
        self.sequence += 1;
        Nonce::assume_unique_for_key(nonce)
    }

    /// Writes a record with `content`, at most [`MAX_PLAINTEXT_LEN`] bytes, to the start of `out`; returns its
    /// length.
    pub(crate) fn seal(
        &mut self,
        content: &[u8],
        kind: u8,
        out: &mut [u8],
    ) -> Result<usize, Error> {
        let len = content.len() + OVERHEAD;
        let Ok(body) = u16::try_from(len - HEADER_LEN) else { return Err(Error::NoRoom) };
        let (header, rest) = out.split_first_chunk_mut().ok_or(Error::NoRoom)?;
        let rest = rest.get_mut(..usize::from(body)).ok_or(Error::NoRoom)?;
        let (sealed, tail) = rest.split_at_mut_checked(content.len()).ok_or(Error::NoRoom)?;
        let [high, low] = body.to_be_bytes();
        *header = [content::APPLICATION_DATA, 3, 3, high, low];
        let (nonce, aad) = (self.nonce(), Aad::from(*header));
        self.key
            .seal_out_of_place_scatter(nonce, aad, content, sealed, &[kind], tail)
            .map_err(|_| Error::NoRoom)?;
        Ok(len)
    }

    /// Decrypts one complete record to the start of `out`; returns the content's length and type.
    pub(crate) fn open(&mut self, record: &[u8], out: &mut [u8]) -> Result<(usize, u8), Error> {
        let (header, body) = record.split_first_chunk::<HEADER_LEN>().ok_or(Error::NoRoom)?;
        let (sealed, tag) = body.split_last_chunk::<TAG_LEN>().ok_or(Error::NotAuthentic)?;
        let out = out.get_mut(..sealed.len()).ok_or(Error::NoRoom)?;
        let (nonce, aad) = (self.nonce(), Aad::from(*header));
        self.key
            .open_separate_gather(nonce, aad, sealed, tag, out)
            .map_err(|_| Error::NotAuthentic)?;
        // The type is the last byte that is not zero (RFC 8446 section 5.4).
        let at = out.iter().rposition(|byte| *byte != 0);
        at.and_then(|at| Some((at, *out.get(at)?))).ok_or(Error::Record {
            field: "content type",
            found: 0,
            expected: "one that is not zero",
        })
    }
}

/// Length of the record at the start of `bytes`; `None` if its header is incomplete.
pub(crate) fn record_len(bytes: &[u8]) -> Result<Option<usize>, Error> {
    let Some(&[kind, major, _, high, low]) = bytes.first_chunk::<HEADER_LEN>() else {
        return Ok(None);
    };
    if !(content::CHANGE_CIPHER_SPEC..=content::APPLICATION_DATA).contains(&kind) || major != 3 {
        let found = u64::from(kind) << 8 | u64::from(major);
        return Err(Error::Record { field: "type and version", found, expected: "TLS" });
    }
    let len = HEADER_LEN + usize::from(u16::from_be_bytes([high, low]));
    if len > MAX_CIPHERTEXT_LEN {
        return Err(Error::Record {
            field: "length",
            found: len as u64,
            expected: "at most 16645",
        });
    }
    Ok(Some(len))
}
