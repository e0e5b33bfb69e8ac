//! VXLAN (RFC 7348).

/// Length of a header.
pub const HEADER_LEN: usize = 8;
/// UDP port (IANA).
pub const PORT: u16 = 4789;

/// The header of a network identifier of 24 bits (RFC 7348 section 5).
#[must_use]
pub fn emit(vni: u32) -> [u8; HEADER_LEN] {
    let [_, a, b, c] = vni.to_be_bytes();
    [0x08, 0, 0, 0, a, b, c, 0]
}

/// The frame inside; none where the flag that says so is not set.
#[must_use]
pub fn inner(bytes: &[u8]) -> Option<&[u8]> {
    let (header, frame) = bytes.split_first_chunk::<HEADER_LEN>()?;
    (header[0] & 0x08 != 0).then_some(frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carries_a_frame() {
        let bytes = [&emit(0x12_3456)[..], b"frame"].concat();
        assert_eq!(bytes[4..8], [0x12, 0x34, 0x56, 0]);
        assert_eq!(inner(&bytes), Some(&b"frame"[..]));
        assert_eq!(inner(&[0; 8]), None);
    }
}
