//! VXLAN (RFC 7348 section 5).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-----------------------------------------------+
//! |R|R|R|R|I|R|R|R|                   Reserved                    |
//! +-+-+-+-+-+-+-+-+-------------------------------+---------------+
//! |        VXLAN Network Identifier (VNI)         |   Reserved    |
//! +-----------------------------------------------+---------------+
//! ```

/// Length of a header, bytes.
pub const HEADER_LEN: usize = 8;
/// UDP destination port (IANA).
pub const PORT: u16 = 4789;

/// The I flag: the VNI is valid.
const INSTANCE: u8 = 0x08;

/// The header for a VNI, of which the low 24 bits are used.
#[must_use]
pub fn emit(vni: u32) -> [u8; HEADER_LEN] {
    let [_, a, b, c] = vni.to_be_bytes();
    [INSTANCE, 0, 0, 0, a, b, c, 0]
}

/// The encapsulated Ethernet frame, or `None` if the I flag is not set.
#[must_use]
pub fn inner(bytes: &[u8]) -> Option<&[u8]> {
    let (header, frame) = bytes.split_first_chunk::<HEADER_LEN>()?;
    (header[0] & INSTANCE != 0).then_some(frame)
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
