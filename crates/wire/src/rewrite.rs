//! IP address swapping: writes addresses and ports into TCP and UDP packets over IPv4, and into the packets
//! that ICMP errors quote.
//!
//! Checksums are updated incrementally (RFC 1624), never recomputed: a packet that was corrupt before is
//! still detected as corrupt afterwards.

use std::net::Ipv4Addr;

use crate::{
    bytes::{get, get_u16},
    checksum::{self, Sum},
    icmpv4,
    ipv4::{self, Packet, protocol},
    tcp, udp,
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

/// Addresses and label ports of a packet: what a switch entry matches, and what it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tuple {
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
    /// The ports that hold the label.
    pub ports: Ports,
}

impl Tuple {
    /// The tuple of a packet. `None` if the packet is neither TCP nor UDP (for both ports: not UDP), is a
    /// fragment other than the first, or has IP options.
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

/// The packet that an ICMP error quotes (RFC 792).
fn quoted<'a>(error: &Packet<'a>) -> Option<&'a [u8]> {
    use icmpv4::kind::{DESTINATION_UNREACHABLE, PARAMETER_PROBLEM, TIME_EXCEEDED};
    let is_error = error.protocol() == protocol::ICMP && !error.is_fragment();
    match error.payload().split_first_chunk::<{ icmpv4::HEADER_LEN }>() {
        Some(([DESTINATION_UNREACHABLE | TIME_EXCEEDED | PARAMETER_PROBLEM, ..], quoted))
            if is_error =>
        {
            Some(quoted)
        }
        _ => None,
    }
}

fn ports(packet: &Packet<'_>, place: Place) -> Option<Ports> {
    let has_ports = packet.header_len() == ipv4::HEADER_LEN && !packet.is_later_fragment();
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

/// Writes addresses and ports into a TCP or UDP packet. `bytes` start with the IPv4 header and may be
/// truncated, as in an ICMP error: a field that is missing is not updated. Returns false, and changes
/// nothing, if the packet has no such tuple.
pub fn rewrite(bytes: &mut [u8], write: Tuple) -> bool {
    let Ok(packet) = Packet::parse_quoted(bytes) else { return false };
    let protocol = packet.protocol();
    let Some(old) = Tuple::of(&packet, write.ports.place()) else { return false };
    update(bytes, ipv4::field::CHECKSUM.start, |sum| update_addresses(sum, old, write));
    let transport = |sum| {
        let (was, is) = (old.ports.split(), write.ports.split());
        let changed = [was.0.zip(is.0), was.1.zip(is.1)].into_iter().flatten();
        changed
            .filter(|(old, new)| old != new)
            .fold(update_addresses(sum, old, write), |sum, (old, new)| {
                checksum::update(sum, old, new)
            })
    };
    match protocol {
        protocol::TCP => update(bytes, ipv4::HEADER_LEN + tcp::field::CHECKSUM, transport),
        _ => update(bytes, ipv4::HEADER_LEN + udp::field::CHECKSUM.start, |sum| {
            match transport(sum) {
                // RFC 768: 0 means no checksum, and a computed zero is sent as all ones.
                _ if sum == 0 => 0,
                0 => 0xffff,
                new => new,
            }
        }),
    }
    put(bytes, ipv4::field::SOURCE.start, write.source.octets());
    put(bytes, ipv4::field::DESTINATION.start, write.destination.octets());
    let (source, destination) = write.ports.split();
    for (offset, port) in [(SOURCE_PORT, source), (DESTINATION_PORT, destination)] {
        if let Some(port) = port {
            put(bytes, ipv4::HEADER_LEN + offset, port.to_be_bytes());
        }
    }
    true
}

/// Decrements the TTL (RFC 1812 section 5.3.1). Returns false, and changes nothing, if it would become 0.
pub fn decrement_ttl(bytes: &mut [u8]) -> bool {
    use ipv4::field::{CHECKSUM, TTL};
    let Some(ttl) = bytes.get(TTL).copied().filter(|ttl| *ttl > 1) else { return false };
    put(bytes, TTL, [ttl - 1]);
    // The 16-bit word is TTL and protocol; the protocol does not change.
    let word = |ttl: u8| u16::from(ttl) << 8;
    update(bytes, CHECKSUM.start, |sum| checksum::update(sum, word(ttl), word(ttl - 1)));
    true
}

/// Translates an ICMP error about a rewritten packet into one about the packet as its sender sent it. `write`
/// is the tuple that the entry found by [`Tuple::of_reply_to_quoted`] writes; the new error is sent from
/// `from` to that tuple's destination.
#[must_use]
pub fn rewrite_error(error: &Packet<'_>, write: Tuple, from: Ipv4Addr) -> Option<Vec<u8>> {
    let mut message = error.payload().to_vec();
    quoted(error)?;
    if !rewrite(message.get_mut(icmpv4::HEADER_LEN..)?, write.reversed()) {
        return None;
    }
    put(&mut message, icmpv4::field::CHECKSUM, [0, 0]);
    let checksum = Sum::default().bytes(&message).finish();
    put(&mut message, icmpv4::field::CHECKSUM, checksum);
    let (protocol, ttl) = (protocol::ICMP, ERROR_TTL);
    let repr = ipv4::Repr { source: from, destination: write.destination, protocol, ttl };
    Some([&repr.emit(message.len())?[..], &message].concat())
}

/// The checksum `sum` after both addresses changed from `old` to `new`.
fn update_addresses(sum: u16, old: Tuple, new: Tuple) -> u16 {
    let words = |address: Ipv4Addr| {
        let [a, b, c, d] = address.octets();
        [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]
    };
    let pairs = [(old.source, new.source), (old.destination, new.destination)];
    pairs.into_iter().fold(sum, |sum, (old, new)| {
        let pairs = words(old).into_iter().zip(words(new));
        pairs.fold(sum, |sum, (old, new)| checksum::update(sum, old, new))
    })
}

/// Replaces the 16-bit field at `offset`, if it is there.
fn update(bytes: &mut [u8], offset: usize, new: impl Fn(u16) -> u16) {
    if let Some(field) = get(bytes, offset) {
        put(bytes, offset, new(u16::from_be_bytes(field)).to_be_bytes());
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
    use proptest::prelude::*;

    use super::*;

    /// Two tuples of the same place.
    fn tuples() -> impl Strategy<Value = (Tuple, Tuple)> {
        let ends = any::<(u32, u32, u16, u16)>();
        (ends, ends, 0..3_usize).prop_map(|(one, other, place)| {
            let made = |(source, destination, from, to): (u32, u32, u16, u16)| Tuple {
                source: source.into(),
                destination: destination.into(),
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
        let repr = ipv4::Repr { source, destination, protocol, ttl: 9 };
        [&repr.emit(payload.len()).unwrap()[..], &payload].concat()
    }

    fn l4_sum(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, payload: &[u8]) -> [u8; 2] {
        Sum::default()
            .bytes(&source.octets())
            .bytes(&destination.octets())
            .word(protocol.into())
            .word(u16::try_from(payload.len()).unwrap())
            .bytes(payload)
            .finish()
    }

    fn assert_valid(bytes: &[u8]) {
        let packet = Packet::parse(bytes).unwrap();
        assert_eq!(Sum::default().bytes(&bytes[..20]).finish(), [0, 0]);
        let (source, destination) = (packet.source(), packet.destination());
        assert_eq!(l4_sum(source, destination, packet.protocol(), packet.payload()), [0, 0]);
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
            prop_assert_eq!(bytes[8], 8);
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
            bytes[34] ^= 1;
            rewrite(&mut bytes, write);
            let packet = Packet::parse(&bytes).unwrap();
            let (source, destination) = (packet.source(), packet.destination());
            prop_assert_ne!(
                l4_sum(source, destination, packet.protocol(), packet.payload()), [0, 0]
            );
        }

        #[test]
        fn a_udp_packet_without_checksum_stays_without((mut bytes, write) in packet()) {
            bytes[9] = protocol::UDP;
            bytes[26..28].copy_from_slice(&[0, 0]);
            prop_assert!(rewrite(&mut bytes, write));
            prop_assert_eq!(&bytes[26..28], &[0, 0]);
        }

        #[test]
        fn errors_about_a_rewritten_packet_are_about_the_original(
            (original, write) in packet(),
            words in 14..60_usize,
        ) {
            let place = write.ports.place();
            let own = Tuple::of(&Packet::parse(&original).unwrap(), place).unwrap();
            let mut sent = original.clone();
            rewrite(&mut sent, write);
            let quote = &sent[..(2 * words).min(sent.len())];
            let message = [&[3, 4, 0, 0, 0, 0, 5, 120][..], quote].concat();
            let header = ipv4::Repr {
                source: [203, 0, 113, 1].into(),
                destination: write.source,
                protocol: protocol::ICMP,
                ttl: 3,
            };
            let error = [&header.emit(message.len()).unwrap()[..], &message].concat();
            let error = Packet::parse(&error).unwrap();

            // The entry that replies match.
            let found = Tuple::of_reply_to_quoted(&error, place.opposite());
            prop_assert_eq!(found, Some(write.reversed()));
            let from = Ipv4Addr::new(192, 0, 2, 1);
            let translated = rewrite_error(&error, own.reversed(), from).unwrap();
            let translated = Packet::parse(&translated).unwrap();
            prop_assert_eq!((translated.source(), translated.destination()), (from, own.source));
            prop_assert_eq!(Sum::default().bytes(translated.payload()).finish(), [0, 0]);
            prop_assert_eq!(&translated.payload()[4..8], &[0, 0, 5, 120]);
            prop_assert_eq!(&translated.payload()[8..], &original[..quote.len()]);
        }

        #[test]
        fn no_bytes_panic(mut bytes: Vec<u8>, (write, _) in tuples()) {
            if let Ok(packet) = Packet::parse(&bytes) {
                let _ = Tuple::of(&packet, write.ports.place());
                let _ = Tuple::of_reply_to_quoted(&packet, write.ports.place());
                let _ = rewrite_error(&packet, write, write.source);
            }
            rewrite(&mut bytes, write);
            decrement_ttl(&mut bytes);
        }
    }

    #[test]
    fn a_ttl_of_one_is_not_decremented() {
        let ports = Ports::Source(3);
        let tuple = Tuple { source: [1; 4].into(), destination: [2; 4].into(), ports };
        let mut bytes = build(tuple, protocol::TCP, vec![0; 20]);
        bytes[8] = 1;
        assert!(!decrement_ttl(&mut bytes));
        assert_eq!(bytes[8], 1);
    }
}
