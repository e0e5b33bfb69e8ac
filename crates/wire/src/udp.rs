//! UDP (RFC 768).

/// Length of a header.
pub const HEADER_LEN: usize = 8;

/// A datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    header: &'a [u8; HEADER_LEN],
    payload: &'a [u8],
}

impl<'a> Datagram<'a> {
    /// Reads a datagram, which may be followed by padding; none where its length is beyond the bytes.
    #[must_use]
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (header, rest) = bytes.split_first_chunk::<HEADER_LEN>()?;
        let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
        let payload = rest.get(..length.checked_sub(HEADER_LEN)?)?;
        Some(Self { header, payload })
    }

    /// Port it goes to.
    #[must_use]
    pub fn destination_port(&self) -> u16 {
        u16::from_be_bytes([self.header[2], self.header[3]])
    }

    /// What it carries.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// The values of a header. The checksum is left zero: over IPv4 that means none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Port it comes from.
    pub source_port: u16,
    /// Port it goes to.
    pub destination_port: u16,
}

impl Repr {
    /// The header before `payload_len` bytes; none where the datagram would be longer than 65535.
    #[must_use]
    pub fn emit(&self, payload_len: usize) -> Option<[u8; HEADER_LEN]> {
        let length = u16::try_from(HEADER_LEN + payload_len).ok()?;
        let mut header = [0; HEADER_LEN];
        header[0..2].copy_from_slice(&self.source_port.to_be_bytes());
        header[2..4].copy_from_slice(&self.destination_port.to_be_bytes());
        header[4..6].copy_from_slice(&length.to_be_bytes());
        Some(header)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn padding_is_not_payload(payload: Vec<u8>, padding: Vec<u8>, port: u16) {
            let repr = Repr { source_port: 1, destination_port: port };
            let header = repr.emit(payload.len()).unwrap();
            let bytes = [&header[..], &payload, &padding].concat();
            let datagram = Datagram::parse(&bytes).unwrap();
            prop_assert_eq!((datagram.destination_port(), datagram.payload()), (port, &payload[..]));
        }

        #[test]
        fn anything_can_be_read(bytes: Vec<u8>) {
            let _ = Datagram::parse(&bytes);
        }
    }
}
