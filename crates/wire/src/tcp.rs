//! TCP headers (RFC 9293 section 3.1), as far as a tunnel looks into them.

use crate::{ip, ipv4::protocol::TCP};

/// FIN, SYN, RST.
const SAYS_MORE: u8 = 0x07;

/// Whether a packet is of TCP and says more than which bytes have come: where it is lost the other end waits for
/// it, while a later acknowledgement stands for an earlier one. Not of fragments.
#[must_use]
pub fn is_awaited(packet: &ip::Packet<'_>) -> bool {
    let segment = match packet {
        ip::Packet::V4(packet) if packet.is_fragment() => return false,
        ip::Packet::V4(packet) => packet.payload(),
        ip::Packet::V6(packet) => packet.payload(),
    };
    if packet.protocol() != TCP {
        return false;
    }
    let (Some(offset), Some(flags)) = (segment.get(12), segment.get(13)) else { return false };
    segment.len() > usize::from(offset >> 4) * 4 || flags & SAYS_MORE != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv4 packet of this protocol with a TCP header of 24 bytes.
    fn awaited(protocol: u8, fragment: u8, flags: u8, payload: usize) -> bool {
        let mut bytes = vec![0; 20 + 24 + payload];
        let len = u8::try_from(bytes.len()).unwrap();
        let mut put = |at: usize, value: u8| bytes[at] = value;
        put(0, 0x45);
        put(3, len);
        put(6, fragment);
        put(9, protocol);
        put(20 + 12, 6 << 4);
        put(20 + 13, flags);
        is_awaited(&ip::Packet::parse(&bytes).unwrap())
    }

    #[test]
    fn acknowledgements_alone_are_not_awaited() {
        const ACK: u8 = 0x10;
        assert!(!awaited(TCP, 0, ACK, 0));
        assert!(awaited(TCP, 0, ACK, 1));
        assert!(
            awaited(TCP, 0, ACK | 0x01, 0) && awaited(TCP, 0, 0x02, 0) && awaited(TCP, 0, 0x04, 0)
        );
        assert!(!awaited(17, 0, ACK, 1), "not TCP");
        assert!(!awaited(TCP, 0x20, ACK, 1), "a fragment");
    }
}
