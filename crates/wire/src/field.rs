//! Numbers written into headers.

/// Writes two bytes in network order, where there is room for them.
pub(crate) fn put(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(field) = bytes.get_mut(at..at + 2) {
        field.copy_from_slice(&value.to_be_bytes());
    }
}

/// A length in 16 bits, or the most that fits.
pub(crate) fn clamp(len: usize) -> u16 {
    u16::try_from(len).unwrap_or(u16::MAX)
}
