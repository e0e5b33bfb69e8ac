//! IP address swapping: writes addresses and ports into TCP and UDP packets over IPv4 and IPv6, and into the
//! packets that ICMP errors quote.
//!
//! Checksums are updated incrementally (RFC 1624), never recomputed: a packet that was corrupt before is
//! still detected as corrupt afterwards.

use std::net::IpAddr;

use crate::{
    bytes::{get, get_u16},
    checksum::{self, Sum},
    icmpv4, icmpv6,
    ip::Packet,
    ipv4::{self, protocol},
    ipv6, tcp, udp,
};

/// Which ports hold a path label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// The source port: return direction of a path.
    Source,
    /// The destination port: forward direction of a path.
    Destination,
    /// Both UDP ports: a wide label, in either direction.
    Both,
}

impl Place {
    /// All places, in the order in which the switch looks them up.
    pub const ALL: [Self; 3] = [Self::Both, Self::Destination, Self::Source];

    /// The place of the label in packets of the opposite direction.
    #[must_use]
    pub const fn opposite(self) -> Self {
        match self {
            Self::Source => Self::Destination,
            Self::Destination => Self::Source,
            Self::Both => Self::Both,
        }
    }
}

/// Values of the ports that hold a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ports {
    /// The source port.
    Source(u16),
    /// The destination port.
    Destination(u16),
    /// Both ports.
    Both {
        /// The source port.
        source: u16,
        /// The destination port.
        destination: u16,
    },
}

impl Ports {
    /// Which ports they are.
    #[must_use]
    pub const fn place(self) -> Place {
        match self {
            Self::Source(_) => Place::Source,
            Self::Destination(_) => Place::Destination,
            Self::Both { .. } => Place::Both,
        }
    }

    /// The ports of packets of the opposite direction: source and destination swapped.
    #[must_use]
    pub const fn reversed(self) -> Self {
        match self {
            Self::Source(port) => Self::Destination(port),
            Self::Destination(port) => Self::Source(port),
            Self::Both { source, destination } => {
                Self::Both { source: destination, destination: source }
            }
        }
    }

    /// Source and destination port, if they hold the label.
    #[must_use]
    pub const fn split(self) -> (Option<u16>, Option<u16>) {
        match self {
            Self::Source(port) => (Some(port), None),
            Self::Destination(port) => (None, Some(port)),
            Self::Both { source, destination } => (Some(source), Some(destination)),
        }
    }
}

/// Addresses and label ports of a packet: what a switch entry matches, and what it writes. Both addresses
/// are of one version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tuple {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// The ports that hold the label.
    pub ports: Ports,
}

impl Tuple {
    /// The tuple of a packet. `None` if the packet is neither TCP nor UDP (for both ports: not UDP), is a
    /// fragment other than the first, or has IP options or extension headers, that of fragments among them.
    #[must_use]
    pub fn of(packet: &Packet<'_>, place: Place) -> Option<Self> {
        let ports = ports(packet, place)?;
        Some(Self { source: packet.source(), destination: packet.destination(), ports })
    }

    /// The tuple of a reply to the packet that an ICMP error quotes. `None` if the packet is no ICMP error,
    /// or quotes no packet with a tuple.
    #[must_use]
    pub fn of_reply_to_quoted(error: &Packet<'_>, place: Place) -> Option<Self> {
        let quoted = Packet::parse_quoted(quoted(error)?).ok()?;
        Some(Self::of(&quoted, place.opposite())?.reversed())
    }

    /// The tuple of packets of the opposite direction: source and destination swapped.
    #[must_use]
    pub const fn reversed(self) -> Self {
        let Self { source, destination, ports } = self;
        Self { source: destination, destination: source, ports: ports.reversed() }
    }
}

/// TTL of an ICMP error that is sent on. RFC 1700 recommended 64.
const ERROR_TTL: u8 = 64;

/// The packet that an ICMP error quotes (RFC 792, RFC 4443).
fn quoted<'a>(error: &Packet<'a>) -> Option<&'a [u8]> {
    use icmpv4::kind::{DESTINATION_UNREACHABLE, PARAMETER_PROBLEM, TIME_EXCEEDED};
    let (header, quoted) = error.payload().split_first_chunk::<{ icmpv4::HEADER_LEN }>()?;
    let is_error = match error {
        Packet::V4(error) => {
            error.protocol() == protocol::ICMP
                && !error.is_fragment()
                && matches!(header[0], DESTINATION_UNREACHABLE | TIME_EXCEEDED | PARAMETER_PROBLEM)
        }
        Packet::V6(error) => {
            error.next_header() == icmpv6::ICMPV6 && icmpv6::ERRORS.contains(&header[0])
        }
    };
    is_error.then_some(quoted)
}

fn ports(packet: &Packet<'_>, place: Place) -> Option<Ports> {
    let has_ports = match packet {
        Packet::V4(packet) => {
            packet.header_len() == ipv4::HEADER_LEN && !packet.is_later_fragment()
        }
        Packet::V6(_) => true, // an extension header would be the protocol
    };
    let may_hold_label = match packet.protocol() {
        protocol::UDP => true,
        protocol::TCP => place != Place::Both,
        _ => false,
    };
    if !may_hold_label || !has_ports {
        return None;
    }
    let port = |offset| get_u16(packet.payload(), offset);
    Some(match place {
        Place::Source => Ports::Source(port(SOURCE_PORT)?),
        Place::Destination => Ports::Destination(port(DESTINATION_PORT)?),
        Place::Both => {
            Ports::Both { source: port(SOURCE_PORT)?, destination: port(DESTINATION_PORT)? }
        }
    })
}

/// Offsets of the ports in TCP and UDP headers, where they are equal.
const SOURCE_PORT: usize = udp::field::SOURCE_PORT.start;
const DESTINATION_PORT: usize = udp::field::DESTINATION_PORT.start;

/// Writes addresses and ports into a TCP or UDP packet. `bytes` start with the IP header and may be truncated,
/// as in an ICMP error: a field that is missing is not updated. Returns false, and changes nothing, if the packet
/// has no such tuple, or one of the other version of IP.
pub fn rewrite(bytes: &mut [u8], write: Tuple) -> bool {
    let Ok(packet) = Packet::parse_quoted(bytes) else { return false };
    let Some(old) = Tuple::of(&packet, write.ports.place()) else { return false };
    let protocol = packet.protocol();
    let fields = match (packet, write.source, write.destination) {
        (Packet::V4(_), IpAddr::V4(_), IpAddr::V4(_)) => Fields::V4,
        (Packet::V6(_), IpAddr::V6(_), IpAddr::V6(_)) => Fields::V6,
        _ => return false,
    };
    if let Some(checksum) = fields.checksum {
        update(bytes, checksum, |sum| update_addresses(sum, old, write));
    }
    update_transport(bytes, fields.transport, protocol, old, write);
    put_address(bytes, fields.source, write.source);
    put_address(bytes, fields.destination, write.destination);
    let (source, destination) = write.ports.split();
    for (offset, port) in [(SOURCE_PORT, source), (DESTINATION_PORT, destination)] {
        if let Some(port) = port {
            put(bytes, fields.transport + offset, port.to_be_bytes());
        }
    }
    true
}

/// Offsets in a packet without IP options or extension headers.
struct Fields {
    /// Of the header's checksum, which IPv6 does not have.
    checksum: Option<usize>,
    source: usize,
    destination: usize,
    /// Of the TCP or UDP header.
    transport: usize,
}

impl Fields {
    const V4: Self = Self {
        checksum: Some(ipv4::field::CHECKSUM.start),
        source: ipv4::field::SOURCE.start,
        destination: ipv4::field::DESTINATION.start,
        transport: ipv4::HEADER_LEN,
    };
    const V6: Self = Self {
        checksum: None,
        source: ipv6::field::SOURCE.start,
        destination: ipv6::field::DESTINATION.start,
        transport: ipv6::HEADER_LEN,
    };
}

/// Updates the checksum of TCP or UDP, whose header is at offset `at`.
fn update_transport(bytes: &mut [u8], at: usize, protocol: u8, old: Tuple, write: Tuple) {
    let changed = |sum| {
        let (was, is) = (old.ports.split(), write.ports.split());
        let changed = [was.0.zip(is.0), was.1.zip(is.1)].into_iter().flatten();
        changed
            .filter(|(old, new)| old != new)
            .fold(update_addresses(sum, old, write), |sum, (old, new)| {
                checksum::update(sum, old, new)
            })
    };
    match protocol {
        protocol::TCP => update(bytes, at + tcp::field::CHECKSUM, changed),
        _ => update(bytes, at + udp::field::CHECKSUM.start, |sum| {
            match changed(sum) {
                // RFC 768: 0 means no checksum, and a computed zero is sent as all ones. Over IPv6 receivers
                // drop a packet without one (RFC 8200 section 8.1).
                _ if sum == 0 => 0,
                0 => 0xffff,
                new => new,
            }
        }),
    }
}

/// Decrements the TTL (RFC 1812 section 5.3.1) or hop limit (RFC 8200 section 3). Returns false, and changes
/// nothing, if it would become 0.
pub fn decrement_ttl(bytes: &mut [u8]) -> bool {
    use ipv4::field::{CHECKSUM, TTL};
    let is_ipv6 = bytes.first().is_some_and(|first| first >> 4 == 6);
    let at = if is_ipv6 { ipv6::field::HOP_LIMIT } else { TTL };
    let Some(ttl) = bytes.get(at).copied().filter(|ttl| *ttl > 1) else { return false };
    put(bytes, at, [ttl - 1]);
    if !is_ipv6 {
        // The 16-bit word is TTL and protocol; the protocol does not change.
        let word = |ttl: u8| u16::from(ttl) << 8;
        update(bytes, CHECKSUM.start, |sum| checksum::update(sum, word(ttl), word(ttl - 1)));
    }
    true
}

/// Translates an ICMP error about a rewritten packet into one about the packet as its sender sent it. `write`
/// is the tuple that the entry found by [`Tuple::of_reply_to_quoted`] writes; the new error is sent from
/// `from` to that tuple's destination. `None` if the versions of IP differ.
#[must_use]
pub fn rewrite_error(error: &Packet<'_>, write: Tuple, from: IpAddr) -> Option<Vec<u8>> {
    let mut message = error.payload().to_vec();
    quoted(error)?;
    if !rewrite(message.get_mut(icmpv4::HEADER_LEN..)?, write.reversed()) {
        return None;
    }
    match (from, write.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            put(&mut message, icmpv4::field::CHECKSUM, [0, 0]);
            let checksum = Sum::default().bytes(&message).finish();
            put(&mut message, icmpv4::field::CHECKSUM, checksum);
            let (protocol, ttl) = (protocol::ICMP, ERROR_TTL);
            let repr = ipv4::Repr { source, destination, protocol, ttl };
            Some([&repr.emit(message.len())?[..], &message].concat())
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => icmpv6::emit(source, destination, message),
        _ => None,
    }
}

/// The checksum `sum` after both addresses changed from `old` to `new`.
fn update_addresses(sum: u16, old: Tuple, new: Tuple) -> u16 {
    let pairs = [(old.source, new.source), (old.destination, new.destination)];
    pairs.into_iter().fold(sum, |sum, pair| match pair {
        (IpAddr::V4(old), IpAddr::V4(new)) => update_bytes(sum, &old.octets(), &new.octets()),
        (IpAddr::V6(old), IpAddr::V6(new)) => update_bytes(sum, &old.octets(), &new.octets()),
        _ => sum, // refused before
    })
}

/// The checksum `sum` after an even number of bytes changed.
fn update_bytes(sum: u16, old: &[u8], new: &[u8]) -> u16 {
    let words = old.as_chunks().0.iter().zip(new.as_chunks().0);
    words.fold(sum, |sum, (old, new)| {
        checksum::update(sum, u16::from_be_bytes(*old), u16::from_be_bytes(*new))
    })
}

/// Replaces the 16-bit field at `offset`, if it is there.
fn update(bytes: &mut [u8], offset: usize, new: impl Fn(u16) -> u16) {
    if let Some(field) = get(bytes, offset) {
        put(bytes, offset, new(u16::from_be_bytes(field)).to_be_bytes());
    }
}

/// Writes an address at `offset`, if there is space for it.
fn put_address(bytes: &mut [u8], offset: usize, address: IpAddr) {
    match address {
        IpAddr::V4(address) => put(bytes, offset, address.octets()),
        IpAddr::V6(address) => put(bytes, offset, address.octets()),
    }
}

/// Writes the field at `offset`, if there is space for it.
fn put<const N: usize>(bytes: &mut [u8], offset: usize, value: [u8; N]) {
    if let Some(field) = bytes.get_mut(offset..).and_then(|tail| tail.first_chunk_mut()) {
        *field = value;
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use proptest::prelude::*;

    use super::*;

    /// Two tuples of the same version and place.
    fn tuples() -> impl Strategy<Value = (Tuple, Tuple)> {
        let ends = any::<(u128, u128, u16, u16)>();
        (ends, ends, 0..3_usize, any::<bool>()).prop_map(|(one, other, place, v6)| {
            let address = |bits: u128| match Ipv6Addr::from(bits).octets() {
                [a, b, c, d, ..] if !v6 => IpAddr::from([a, b, c, d]),
                octets => IpAddr::from(octets),
            };
            let made = |(source, destination, from, to): (u128, u128, u16, u16)| Tuple {
                source: address(source),
                destination: address(destination),
                ports: match Place::ALL[place] {
                    Place::Source => Ports::Source(from),
                    Place::Destination => Ports::Destination(to),
                    Place::Both => Ports::Both { source: from, destination: to },
                },
            };
            (made(one), made(other))
        })
    }

    /// A TCP or UDP packet with valid checksums, and a tuple to write into it.
    fn packet() -> impl Strategy<Value = (Vec<u8>, Tuple)> {
        let payload = proptest::collection::vec(any::<u8>(), 20..100);
        (tuples(), any::<bool>(), payload).prop_map(|((tuple, write), tcp, payload)| {
            let tcp = tcp && write.ports.place() != Place::Both;
            (build(tuple, if tcp { protocol::TCP } else { protocol::UDP }, payload), write)
        })
    }

    fn build(tuple: Tuple, protocol: u8, mut payload: Vec<u8>) -> Vec<u8> {
        let Tuple { source, destination, .. } = tuple;
        let len = u16::try_from(payload.len()).unwrap();
        let field = if protocol == protocol::TCP { 16 } else { 6 };
        if protocol == protocol::UDP {
            put(&mut payload, 4, len.to_be_bytes());
        }
        put(&mut payload, field, [0, 0]);
        let sum = l4_sum(source, destination, protocol, &payload);
        let sum = if protocol == protocol::UDP && sum == [0, 0] { [0xff, 0xff] } else { sum };
        put(&mut payload, field, sum);
        ip(source, destination, protocol, &payload)
    }

    fn ip(source: IpAddr, destination: IpAddr, protocol: u8, payload: &[u8]) -> Vec<u8> {
        let header = match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let repr = ipv4::Repr { source, destination, protocol, ttl: 9 };
                repr.emit(payload.len()).unwrap().to_vec()
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let repr = ipv6::Repr { source, destination, next_header: protocol, hop_limit: 9 };
                repr.emit(payload.len()).unwrap().to_vec()
            }
            _ => unreachable!("of one version"),
        };
        [&header[..], payload].concat()
    }

    /// Offset of the TCP or UDP header.
    fn transport(bytes: &[u8]) -> usize {
        if bytes[0] >> 4 == 6 { 40 } else { 20 }
    }

    fn l4_sum(source: IpAddr, destination: IpAddr, protocol: u8, payload: &[u8]) -> [u8; 2] {
        let address = |sum: Sum, address| match address {
            IpAddr::V4(address) => sum.bytes(&Ipv4Addr::octets(&address)),
            IpAddr::V6(address) => sum.bytes(&Ipv6Addr::octets(&address)),
        };
        address(address(Sum::default(), source), destination)
            .word(protocol.into())
            .word(u16::try_from(payload.len()).unwrap())
            .bytes(payload)
            .finish()
    }

    fn sum_of(bytes: &[u8]) -> [u8; 2] {
        let packet = Packet::parse(bytes).unwrap();
        l4_sum(packet.source(), packet.destination(), packet.protocol(), packet.payload())
    }

    fn assert_valid(bytes: &[u8]) {
        if bytes[0] >> 4 == 4 {
            assert_eq!(Sum::default().bytes(&bytes[..20]).finish(), [0, 0]);
        }
        assert_eq!(sum_of(bytes), [0, 0]);
    }

    proptest! {
        #[test]
        fn checksums_stay_valid((mut bytes, write) in packet()) {
            assert_valid(&bytes);
            prop_assert!(rewrite(&mut bytes, write));
            assert_valid(&bytes);
            let found = Tuple::of(&Packet::parse(&bytes).unwrap(), write.ports.place());
            prop_assert_eq!(found, Some(write));
            prop_assert!(decrement_ttl(&mut bytes));
            assert_valid(&bytes);
            prop_assert_eq!(bytes[if bytes[0] >> 4 == 6 { 7 } else { 8 }], 8);
        }

        /// Except for the two representations of zero (RFC 1624 section 3).
        #[test]
        fn rewriting_back_restores((bytes, write) in packet()) {
            let mut copy = bytes.clone();
            let old = Tuple::of(&Packet::parse(&bytes).unwrap(), write.ports.place()).unwrap();
            rewrite(&mut copy, write);
            rewrite(&mut copy, old);
            assert_valid(&copy);
            prop_assert_eq!(copy, bytes);
        }

        #[test]
        fn corruption_is_still_detected((mut bytes, write) in packet()) {
            let at = transport(&bytes) + 14;
            bytes[at] ^= 1;
            rewrite(&mut bytes, write);
            prop_assert_ne!(sum_of(&bytes), [0, 0]);
        }

        #[test]
        fn a_udp_packet_without_checksum_stays_without((tuple, write) in tuples()) {
            let mut bytes = build(tuple, protocol::UDP, vec![7; 20]);
            let field = transport(&bytes) + 6..transport(&bytes) + 8;
            bytes[field.clone()].copy_from_slice(&[0, 0]);
            prop_assert!(rewrite(&mut bytes, write));
            prop_assert_eq!(&bytes[field], &[0, 0]);
        }

        #[test]
        fn the_other_version_is_not_written((bytes, _) in packet(), (write, _) in tuples()) {
            let mut copy = bytes.clone();
            let is_ipv6 = transport(&bytes) == 40;
            prop_assume!(write.source.is_ipv6() != is_ipv6);
            prop_assert!(!rewrite(&mut copy, write));
            let own = Packet::parse(&bytes).unwrap().source();
            let mixed = Tuple { source: own, ..write };
            prop_assert!(!rewrite(&mut copy, mixed));
            prop_assert_eq!(copy, bytes);
        }

        #[test]
        fn errors_about_a_rewritten_packet_are_about_the_original(
            (original, write) in packet(),
            bytes_quoted in 14..60_usize,
        ) {
            let place = write.ports.place();
            let own = Tuple::of(&Packet::parse(&original).unwrap(), place).unwrap();
            let mut sent = original.clone();
            rewrite(&mut sent, write);
            let length = transport(&sent) - 20 + 2 * bytes_quoted;
            let quote = &sent[..length.min(sent.len())];
            let (router, from): (IpAddr, IpAddr) = match write.source {
                IpAddr::V4(_) => ([203, 0, 113, 1].into(), [192, 0, 2, 1].into()),
                IpAddr::V6(_) => ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into(), Ipv6Addr::LOCALHOST.into()),
            };
            let (protocol, head) = match router {
                IpAddr::V4(_) => (protocol::ICMP, [3, 4, 0, 0, 0, 0, 5, 120]),
                IpAddr::V6(_) => (icmpv6::ICMPV6, [2, 0, 0, 0, 0, 0, 5, 120]),
            };
            let error = ip(router, write.source, protocol, &[&head[..], quote].concat());
            let error = Packet::parse(&error).unwrap();

            // The entry that replies match.
            let found = Tuple::of_reply_to_quoted(&error, place.opposite());
            prop_assert_eq!(found, Some(write.reversed()));
            let translated = rewrite_error(&error, own.reversed(), from).unwrap();
            let translated = Packet::parse(&translated).unwrap();
            prop_assert_eq!((translated.source(), translated.destination()), (from, own.source));
            let sum = match translated {
                Packet::V4(_) => Sum::default().bytes(translated.payload()).finish(),
                Packet::V6(_) => sum_of(translated.bytes()),
            };
            prop_assert_eq!(sum, [0, 0]);
            prop_assert_eq!(&translated.payload()[4..8], &[0, 0, 5, 120]);
            prop_assert_eq!(&translated.payload()[8..], &original[..quote.len()]);
        }

        #[test]
        fn no_bytes_panic(mut bytes: Vec<u8>, version in 4..7_u8, (write, other) in tuples()) {
            if let Some(first) = bytes.first_mut() {
                *first = version << 4 | 5;
            }
            if let Ok(packet) = Packet::parse(&bytes) {
                let _ = Tuple::of(&packet, write.ports.place());
                let _ = Tuple::of_reply_to_quoted(&packet, write.ports.place());
                let _ = rewrite_error(&packet, write, other.source);
            }
            rewrite(&mut bytes, write);
            decrement_ttl(&mut bytes);
        }
    }

    #[test]
    fn extension_headers_hide_the_ports() {
        let address = IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 7]);
        let tuple = Tuple { source: address, destination: address, ports: Ports::Source(3) };
        for extension in [0, 43, 44, 60] {
            let mut bytes = ip(address, address, extension, &[17, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4]);
            assert_eq!(Tuple::of(&Packet::parse(&bytes).unwrap(), Place::Source), None);
            assert!(!rewrite(&mut bytes, tuple));
        }
    }

    #[test]
    fn a_ttl_of_one_is_not_decremented() {
        let ports = Ports::Source(3);
        let v4 = Tuple { source: [1; 4].into(), destination: [2; 4].into(), ports };
        let v6 = Tuple { source: [1; 16].into(), destination: [2; 16].into(), ports };
        for (tuple, at) in [(v4, 8), (v6, 7)] {
            let mut bytes = build(tuple, protocol::TCP, vec![0; 20]);
            bytes[at] = 1;
            assert!(!decrement_ttl(&mut bytes));
            assert_eq!(bytes[at], 1);
        }
    }
}
