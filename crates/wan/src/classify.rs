//! Matching of frames to paths by IP addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// The packets of one path, by their addresses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule {
    /// Source prefix; `None`: any source.
    pub(crate) source: Option<IpNet>,
    /// Destination prefix; `None`: any destination.
    pub(crate) destination: Option<IpNet>,
}

impl Rule {
    /// Whether the rule matches a packet with these addresses. Frames without IP have none, and match only a
    /// rule without prefixes.
    pub(crate) fn matches(&self, addresses: Option<(IpAddr, IpAddr)>) -> bool {
        match addresses {
            None => self.source.is_none() && self.destination.is_none(),
            Some((source, destination)) => {
                self.source.is_none_or(|net| net.contains(&source))
                    && self.destination.is_none_or(|net| net.contains(&destination))
            }
        }
    }
}

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86DD;
/// `EtherType` of IEEE 802.1Q and 802.1ad tags, of which at most two are parsed.
const TAGS: [u16; 2] = [0x8100, 0x88A8];

/// Source and destination address of the IP packet in an Ethernet frame.
pub(crate) fn addresses(frame: &[u8]) -> Option<(IpAddr, IpAddr)> {
    let mut at = 12;
    for _ in 0..2 {
        at += if TAGS.contains(&word(frame, at)?) { 4 } else { 0 };
    }
    let packet = frame.get(at + 2..)?;
    match word(frame, at)? {
        IPV4 => Some((v4(packet, 12)?, v4(packet, 16)?)),
        IPV6 => Some((v6(packet, 8)?, v6(packet, 24)?)),
        _ => None,
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|word| u16::from_be_bytes(*word))
}

fn v4(packet: &[u8], at: usize) -> Option<IpAddr> {
    packet.get(at..)?.first_chunk::<4>().map(|octets| Ipv4Addr::from(*octets).into())
}

fn v6(packet: &[u8], at: usize) -> Option<IpAddr> {
    packet.get(at..)?.first_chunk::<16>().map(|octets| Ipv6Addr::from(*octets).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ethernet(types: &[u16], packet: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; 12];
        for (at, kind) in types.iter().enumerate() {
            frame.extend(kind.to_be_bytes());
            frame.extend(if at + 1 < types.len() { &[0, 7][..] } else { &[] });
        }
        frame.extend(packet);
        frame
    }

    fn ipv4() -> Vec<u8> {
        let mut packet = vec![0; 12];
        packet.extend([10, 1, 0, 2, 10, 2, 0, 3]);
        packet
    }

    #[test]
    fn finds_addresses_behind_up_to_two_tags() {
        let expected = Some(("10.1.0.2".parse().unwrap(), "10.2.0.3".parse().unwrap()));
        for types in [&[IPV4][..], &[0x8100, IPV4], &[0x88A8, 0x8100, IPV4]] {
            assert_eq!(addresses(&ethernet(types, &ipv4())), expected);
        }
        assert_eq!(addresses(&ethernet(&[0x8100, 0x8100, 0x8100, IPV4], &ipv4())), None);
    }

    #[test]
    fn other_and_short_frames_have_none() {
        assert_eq!(addresses(&ethernet(&[0x0806], &ipv4())), None);
        let frame = ethernet(&[IPV4], &ipv4());
        for length in 0..frame.len() {
            assert_eq!(addresses(&frame[..length]), None);
        }
    }

    #[test]
    fn finds_ipv6_addresses() {
        let mut packet = vec![0; 8];
        packet.extend([0x20; 16]);
        packet.extend([0x30; 16]);
        let (source, destination) = addresses(&ethernet(&[IPV6], &packet)).unwrap();
        assert_eq!(source, IpAddr::from([0x20; 16]));
        assert_eq!(destination, IpAddr::from([0x30; 16]));
    }

    #[test]
    fn only_a_rule_without_prefixes_matches_other_protocols() {
        let between = Some(("10.1.0.2".parse().unwrap(), "10.2.0.3".parse().unwrap()));
        let rule = Rule { source: Some("10.1.0.0/24".parse().unwrap()), destination: None };
        assert!(rule.matches(between) && !rule.matches(None));
        assert!(Rule::default().matches(between) && Rule::default().matches(None));
        let other = Rule { destination: Some("10.1.0.0/24".parse().unwrap()), source: None };
        assert!(!other.matches(between));
    }
}
