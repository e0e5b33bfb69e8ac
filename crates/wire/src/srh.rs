//! The Segment Routing Header (RFC 8754).

use std::net::Ipv6Addr;

/// Next-header number of routing headers (RFC 8200).
pub const NEXT_HEADER: u8 = 43;
/// Routing type of segment routing.
const ROUTING_TYPE: u8 = 4;
/// Length of the part in front of the segment list.
const FIXED_LEN: usize = 8;

/// The header that leads through `segments`, in the order in which they are visited; none where there
/// are more than 127. The first segment is the IPv6 destination of the packet.
#[must_use]
pub fn emit(next_header: u8, segments: &[Ipv6Addr]) -> Option<Vec<u8>> {
    let left = u8::try_from(segments.len().checked_sub(1)?).ok().filter(|left| *left < 127)?;
    let length = 2 * (left + 1); // RFC 8754 section 2: in 8 octets, without the first 8
    let mut bytes = vec![next_header, length, ROUTING_TYPE, left, left, 0, 0, 0];
    // RFC 8754 section 2: the list begins with the last segment of the path.
    bytes.extend(segments.iter().rev().flat_map(Ipv6Addr::octets));
    Some(bytes)
}

/// What follows a routing header of any kind: the next header's number and its bytes.
#[must_use]
pub fn after(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let (next, length) = (*bytes.first()?, *bytes.get(1)?);
    Some((next, bytes.get(FIXED_LEN + usize::from(length) * 8..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_segments_backwards() {
        let segments: Vec<Ipv6Addr> = vec!["fd00::1".parse().unwrap(), "fd00::2".parse().unwrap()];
        let bytes = [emit(41, &segments).unwrap(), b"rest".to_vec()].concat();
        assert_eq!(bytes[..8], [41, 4, 4, 1, 1, 0, 0, 0]);
        assert_eq!(bytes[8..24], segments[1].octets());
        assert_eq!(after(&bytes), Some((41, &b"rest"[..])));
    }

    #[test]
    fn no_segments_no_header() {
        assert_eq!(emit(41, &[]), None);
        assert_eq!(emit(41, &[Ipv6Addr::LOCALHOST; 128]), None);
    }
}
