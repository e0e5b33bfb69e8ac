//! Reading and writing fields of a header by their byte ranges.
//!
//! All functions tolerate bytes that are too short for the field: reads return zero or `None`, writes do
//! nothing.

use std::ops::Range;

/// A 16-bit field at `offset`, or `None` if the bytes end before it does.
pub(crate) fn get_u16(bytes: &[u8], offset: usize) -> Option<u16> {
    get(bytes, offset).map(u16::from_be_bytes)
}

/// The `N` bytes at `offset`, or `None` if the bytes end before.
pub(crate) fn get<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..)?.first_chunk().copied()
}

/// The `N` bytes of a field of a header whose length was checked. `field` must span `N` bytes of `header`.
pub(crate) fn field<const N: usize>(header: &[u8], field: Range<usize>) -> [u8; N] {
    header.get(field).and_then(|bytes| bytes.first_chunk().copied()).unwrap_or([0; N])
}

/// Writes a 16-bit field, if the bytes are long enough.
pub(crate) fn put(bytes: &mut [u8], offset: usize, value: u16) {
    if let Some(field) = bytes.get_mut(offset..offset + 2) {
        field.copy_from_slice(&value.to_be_bytes());
    }
}

/// A length as the value of a 16-bit field, at most 65535.
pub(crate) fn clamp(len: usize) -> u16 {
    u16::try_from(len).unwrap_or(u16::MAX)
}
