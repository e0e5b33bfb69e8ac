//! Flow hashing: packets of one flow have the same hash and must stay in order.

use crate::{
    ip, ipv4,
    ipv4::protocol::{TCP, UDP},
    ipv6,
};

/// Hash of the flow: addresses, protocol, and ports where the packet has them.
///
/// All fragments between two IPv4 hosts are one flow, since only the first fragment of a packet has ports.
/// IPv6 packets whose next header is neither TCP nor UDP are distinguished by their flow label (RFC 6437
/// section 2).
#[must_use]
pub fn hash(packet: &ip::Packet<'_>) -> u64 {
    match packet {
        ip::Packet::V4(packet) => hash_v4(packet),
        ip::Packet::V6(packet) => hash_v6(packet),
    }
}

/// Source and destination port of TCP or UDP. `None` for other protocols and for fragments.
#[must_use]
pub fn ports_of(packet: &ip::Packet<'_>) -> Option<(u16, u16)> {
    let payload = match packet {
        ip::Packet::V4(packet) if packet.is_fragment() => return None,
        ip::Packet::V4(packet) => packet.payload(),
        ip::Packet::V6(packet) => packet.payload(),
    };
    match (packet.protocol(), payload.first_chunk()) {
        (TCP | UDP, Some([a, b, c, d])) => {
            Some((u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d])))
        }
        _ => None,
    }
}

/// Mixes two numbers so that every bit of the result depends on every bit of both: the 128-bit product,
/// folded, with the constants of wyhash.
#[must_use]
pub fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a ^ 0xa076_1d64_78bd_642f) * u128::from(b ^ 0xe703_7ed1_a0b4_28db);
    #[allow(clippy::cast_possible_truncation)] // the two halves of the product
    let (low, high) = (product as u64, (product >> 64) as u64);
    low ^ high
}

fn hash_v4(packet: &ipv4::Packet<'_>) -> u64 {
    let addresses =
        u64::from(packet.source().to_bits()) << 32 | u64::from(packet.destination().to_bits());
    let ports = if packet.is_fragment() { 0 } else { ports(packet.protocol(), packet.payload()) };
    mix(addresses, u64::from(packet.protocol()) << 32 | u64::from(ports))
}

fn hash_v6(packet: &ipv6::Packet<'_>) -> u64 {
    let protocol = packet.next_header();
    let rest = match protocol {
        TCP | UDP => ports(protocol, packet.payload()),
        _ => packet.flow_label(),
    };
    let halves = |bits: u128| {
        #[allow(clippy::cast_possible_truncation)] // the two halves of the address
        mix(bits as u64, (bits >> 64) as u64)
    };
    let addresses = mix(halves(packet.source().to_bits()), halves(packet.destination().to_bits()));
    mix(addresses, u64::from(protocol) << 32 | u64::from(rest))
}

/// Both ports as one number; TCP and UDP have them at the same place. 0 for other protocols.
fn ports(protocol: u8, payload: &[u8]) -> u32 {
    match (protocol, payload.first_chunk()) {
        (TCP | UDP, Some(ports)) => u32::from_be_bytes(*ports),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ipv4::Repr;

    fn packet(protocol: u8, ports: u32, fragment: u16) -> Vec<u8> {
        let repr = Repr {
            source: [10, 1, 0, 1].into(),
            destination: [10, 2, 0, 1].into(),
            protocol,
            ttl: 64,
        };
        let mut bytes = repr.emit(8).unwrap().to_vec();
        bytes[6..8].copy_from_slice(&fragment.to_be_bytes());
        bytes.extend(ports.to_be_bytes());
        bytes.extend([0; 4]);
        bytes
    }

    fn hashed(bytes: &[u8]) -> u64 {
        hash(&ip::Packet::parse(bytes).unwrap())
    }

    proptest! {
        #[test]
        fn flows_differ_by_ports(a: u32, b: u32) {
            let equal = hashed(&packet(TCP, a, 0)) == hashed(&packet(TCP, b, 0));
            prop_assert_eq!(equal, a == b);
        }

        #[test]
        fn fragments_of_two_hosts_are_one_flow(a: u32, b: u32, offset in 1..0x2000_u16) {
            prop_assert_eq!(hashed(&packet(UDP, a, 0x2000)), hashed(&packet(UDP, b, offset)));
        }

        #[test]
        fn fragments_have_no_ports(ports: u32, fragment in 1..0x2000_u16) {
            let read = |bytes: &[u8]| ports_of(&ip::Packet::parse(bytes).unwrap());
            #[allow(clippy::cast_possible_truncation)] // the two halves
            let both = ((ports >> 16) as u16, ports as u16);
            prop_assert_eq!(read(&packet(UDP, ports, 0)), Some(both));
            prop_assert_eq!(read(&packet(UDP, ports, fragment)), None);
            prop_assert_eq!(read(&packet(47, ports, 0)), None);
        }

        #[test]
        fn other_protocols_have_no_ports(a: u32, b: u32) {
            prop_assert_eq!(hashed(&packet(47, a, 0)), hashed(&packet(47, b, 0)));
        }
    }

    #[test]
    fn flows_spread_evenly_over_sixteen_buckets() {
        let mut hits = [0; 16];
        for port in 0..16_000 {
            hits[usize::try_from(hashed(&packet(UDP, (port << 16) + 53, 0)) % 16).unwrap()] += 1;
        }
        assert!(hits.iter().all(|n| (850..1150).contains(n)), "{hits:?}");
    }
}
