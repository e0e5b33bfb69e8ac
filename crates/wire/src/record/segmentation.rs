//! How to segment a GSO packet, which is larger than the MTU.

use crate::{Malformed, ip, tcp, udp};

/// Shortest transport header, bytes: that of UDP.
const MIN_TRANSPORT_HEADER: u16 = 8;

/// Protocol of the segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// TCP over IPv4.
    TcpV4 = 1,
    /// TCP over IPv6.
    TcpV6 = 2,
    /// UDP datagrams over either.
    Udp = 3,
}

/// How to segment a packet, and where the checksum of each segment is: the part of `virtio_net_hdr` (virtio
/// 1.2 section 5.1.6) that the other end cannot derive from the packet.
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +---------------+-------------+-+-------------------------------+
/// |   Protocol    |  Reserved   |C|         Segment Size          |   C: first segment has CWR
/// +---------------+-------------+-+-------------------------------+
/// |        Checksum Start         |        Checksum Offset        |
/// +-------------------------------+-------------------------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segmentation {
    protocol: Protocol,
    size: u16,
    checksum_start: u16,
    checksum_offset: u16,
    cwr: bool,
}

impl Segmentation {
    /// Length in a record, bytes.
    pub const LEN: usize = 8;

    /// A segmentation as the kernel reported it.
    #[must_use]
    pub const fn new(
        protocol: Protocol,
        size: u16,
        checksum_start: u16,
        checksum_offset: u16,
        cwr: bool,
    ) -> Self {
        Self { protocol, size, checksum_start, checksum_offset, cwr }
    }

    /// Parses the bytes that follow `packet` in a record.
    pub(super) fn parse(bytes: &[u8], packet: &ip::Packet<'_>) -> Result<Self, Malformed> {
        let wrong =
            |field, offset, found: u64, expected| Err(Malformed { field, offset, found, expected });
        let Some(&[protocol, cwr, s1, s0, b1, b0, o1, o0]) = bytes.first_chunk() else {
            return wrong("segmentation length", 0, bytes.len() as u64, "8");
        };
        let size = u16::from_be_bytes([s1, s0]);
        let (start, offset) = (u16::from_be_bytes([b1, b0]), u16::from_be_bytes([o1, o0]));
        if cwr > 1 {
            return wrong("segmentation flags", 1, cwr.into(), "0 or 1");
        }
        if size == 0 {
            return wrong("segment size", 2, 0, "1 or more");
        }
        let protocol = match (protocol, packet) {
            (1, ip::Packet::V4(_)) => Protocol::TcpV4,
            (2, ip::Packet::V6(_)) => Protocol::TcpV6,
            (3, _) => Protocol::Udp,
            (found, _) => {
                return wrong("segmented protocol", 0, found.into(), "1 to 3, of the packet");
            }
        };
        let this = Self::new(protocol, size, start, offset, cwr == 1);
        if usize::from(start) + usize::from(offset.max(MIN_TRANSPORT_HEADER - 2)) + 2
            > packet.bytes().len()
        {
            return wrong("checksum start", 4, start.into(), "an offset inside the packet");
        }
        Ok(this)
    }

    /// Its bytes in a record.
    #[must_use]
    pub const fn emit(&self) -> [u8; Self::LEN] {
        let [s1, s0] = self.size.to_be_bytes();
        let [b1, b0] = self.checksum_start.to_be_bytes();
        let [o1, o0] = self.checksum_offset.to_be_bytes();
        [self.protocol as u8, self.cwr as u8, s1, s0, b1, b0, o1, o0]
    }

    /// Protocol of the segments.
    #[must_use]
    pub const fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Payload of every segment but the last, bytes.
    #[must_use]
    pub const fn size(&self) -> u16 {
        self.size
    }

    /// The same with segments of another size.
    #[must_use]
    pub const fn with_size(self, size: u16) -> Self {
        Self { size, ..self }
    }

    /// Offset in the packet at which the checksum's coverage starts: the transport header.
    #[must_use]
    pub const fn checksum_start(&self) -> u16 {
        self.checksum_start
    }

    /// Offset of the checksum field after [`Self::checksum_start`].
    #[must_use]
    pub const fn checksum_offset(&self) -> u16 {
        self.checksum_offset
    }

    /// Length of the headers of `packet`, which every segment repeats, in bytes.
    #[must_use]
    pub fn header_len(&self, packet: &[u8]) -> usize {
        let start = usize::from(self.checksum_start);
        let transport = match self.protocol {
            Protocol::Udp => udp::HEADER_LEN,
            Protocol::TcpV4 | Protocol::TcpV6 => {
                tcp::header_len(packet.get(start..).unwrap_or_default()).unwrap_or(tcp::HEADER_LEN)
            }
        };
        start + transport
    }

    /// Number of segments of `packet`.
    #[must_use]
    pub fn segments(&self, packet: &[u8]) -> usize {
        let payload = packet.len().saturating_sub(self.header_len(packet));
        payload.div_ceil(usize::from(self.size).max(1)).max(1)
    }

    /// Whether the first segment, and no other, has TCP's CWR flag (RFC 3168 section 6.1.2).
    #[must_use]
    pub const fn cwr(&self) -> bool {
        self.cwr
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::tcp_packet;

    #[test]
    fn segments_are_counted() {
        let cut = Segmentation::new(Protocol::TcpV4, 1000, 20, 16, false);
        let count = |payload| cut.segments(&tcp_packet(payload));
        assert_eq!([count(1), count(1000), count(1001), count(65495)], [1, 1, 2, 66]);
    }

    #[test]
    fn fields_must_fit_the_packet() {
        let bytes = tcp_packet(100);
        let packet = ip::Packet::parse(&bytes).unwrap();
        let read = |cut: Segmentation| Segmentation::parse(&cut.emit(), &packet);
        let good = Segmentation::new(Protocol::TcpV4, 50, 20, 16, true);
        assert_eq!(read(good), Ok(good));
        for (bad, field) in [
            (Segmentation::new(Protocol::TcpV6, 50, 20, 16, false), "segmented protocol"),
            (Segmentation::new(Protocol::TcpV4, 0, 20, 16, false), "segment size"),
            (Segmentation::new(Protocol::TcpV4, 50, 139, 16, false), "checksum start"),
            (Segmentation::new(Protocol::TcpV4, 50, 20, u16::MAX, false), "checksum start"),
            (Segmentation::new(Protocol::Udp, 50, 133, 0, false), "checksum start"),
        ] {
            assert_eq!(read(bad).unwrap_err().field, field);
        }
    }
}
