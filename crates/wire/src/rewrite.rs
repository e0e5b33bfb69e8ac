//! IP address swapping: new addresses and new ports in packets of TCP and UDP over IPv4, and in the
//! packets that ICMP errors quote. Checksums are updated, never computed anew: a packet that was
//! damaged before is still damaged afterwards (RFC 1624 section 5).

use std::net::Ipv4Addr;

use crate::{
    checksum::{self, Sum},
    ipv4::{self, Packet, protocol},
};

/// Which ports hold a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// The source port: return direction of a path.
    Source,
    /// The destination port: forward direction of a path.
    Destination,
    /// Both ports of UDP: a wide label, in either direction.
    Both,
}

impl Place {
    /// All, in the order in which they are tried.
    pub const ALL: [Self; 3] = [Self::Both, Self::Destination, Self::Source];

    /// Where it is in answers.
    #[must_use]
    pub const fn opposite(self) -> Self {
        match self {
            Self::Source => Self::Destination,
            Self::Destination => Self::Source,
            Self::Both => Self::Both,
        }
    }
}

/// The ports that hold a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ports {
    /// The source port.
    Source(u16),
    /// The destination port.
    Destination(u16),
    /// Both.
    Both {
        /// The source port.
        source: u16,
        /// The destination port.
        destination: u16,
    },
}

impl Ports {
    /// Which they are.
    #[must_use]
    pub const fn place(self) -> Place {
        match self {
            Self::Source(_) => Place::Source,
            Self::Destination(_) => Place::Destination,
            Self::Both { .. } => Place::Both,
        }
    }

    /// As answers have them.
    #[must_use]
    pub const fn turned(self) -> Self {
        match self {
            Self::Source(port) => Self::Destination(port),
            Self::Destination(port) => Self::Source(port),
            Self::Both { source, destination } => {
                Self::Both { source: destination, destination: source }
            }
        }
    }

    /// Source and destination port, where they are among them.
    #[must_use]
    pub const fn split(self) -> (Option<u16>, Option<u16>) {
        match self {
            Self::Source(port) => (Some(port), None),
            Self::Destination(port) => (None, Some(port)),
            Self::Both { source, destination } => (Some(source), Some(destination)),
        }
    }
}

/// Addresses and the ports that hold a label: what entries of a switch are found by, and what they write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tuple {
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
    /// The ports that hold a label.
    pub ports: Ports,
}

impl Tuple {
    /// What a packet has; none where it is not TCP or UDP (for both ports: not UDP), is a later fragment
    /// or has options.
    #[must_use]
    pub fn of(packet: &Packet<'_>, place: Place) -> Option<Self> {
        let ports = ports(packet, place)?;
        Some(Self { source: packet.source(), destination: packet.destination(), ports })
    }

    /// What an answer to the packet has that an ICMP error quotes; none where it is no ICMP error, or
    /// quotes nothing of ours.
    #[must_use]
    pub fn of_answer_to_quoted(error: &Packet<'_>, place: Place) -> Option<Self> {
        let quoted = Packet::parse_quoted(quoted(error)?).ok()?;
        Some(Self::of(&quoted, place.opposite())?.turned())
    }

    /// As answers have it.
    #[must_use]
    pub const fn turned(self) -> Self {
        let Self { source, destination, ports } = self;
        Self { source: destination, destination: source, ports: ports.turned() }
    }
}

/// Length of the ICMP header before the packet that it quotes.
const ICMP_LEN: usize = 8;

/// The packet that an ICMP error quotes (RFC 792).
fn quoted<'a>(error: &Packet<'a>) -> Option<&'a [u8]> {
    let is_error = error.protocol() == protocol::ICMP && !error.is_fragment();
    match error.payload().split_first_chunk::<ICMP_LEN>() {
        // destination unreachable, time exceeded, parameter problem
        Some(([3 | 11 | 12, ..], quoted)) if is_error => Some(quoted),
        _ => None,
    }
}

fn ports(packet: &Packet<'_>, place: Place) -> Option<Ports> {
    let plain = packet.header_len() == ipv4::HEADER_LEN && !packet.is_later_fragment();
    let carried = match packet.protocol() {
        protocol::UDP => true,
        protocol::TCP => place != Place::Both,
        _ => false,
    };
    if !carried || !plain {
        return None;
    }
    let port =
        |at: usize| packet.payload().get(at..)?.first_chunk().copied().map(u16::from_be_bytes);
    Some(match place {
        Place::Source => Ports::Source(port(SOURCE)?),
        Place::Destination => Ports::Destination(port(DESTINATION)?),
        Place::Both => Ports::Both { source: port(SOURCE)?, destination: port(DESTINATION)? },
    })
}

/// Where the ports stand in the header of TCP and UDP.
const SOURCE: usize = 0;
const DESTINATION: usize = 2;

/// Writes addresses and ports into a packet of TCP or UDP. `bytes` begin with the IPv4 header and may
/// end early, as in an ICMP error: what is not there is not updated. Without such ports nothing
/// changes, and the answer is false.
pub fn rewrite(bytes: &mut [u8], write: Tuple) -> bool {
    let Ok(packet) = Packet::parse_quoted(bytes) else { return false };
    let protocol = packet.protocol();
    let Some(old) = Tuple::of(&packet, write.ports.place()) else { return false };
    update(bytes, 10, |sum| addresses(sum, old, write));
    let l4 = |sum| {
        let (was, is) = (old.ports.split(), write.ports.split());
        let changed = [was.0.zip(is.0), was.1.zip(is.1)].into_iter().flatten();
        changed
            .filter(|(old, new)| old != new)
            .fold(addresses(sum, old, write), |sum, (old, new)| checksum::update(sum, old, new))
    };
    match protocol {
        protocol::TCP => update(bytes, ipv4::HEADER_LEN + 16, l4),
        _ => update(bytes, ipv4::HEADER_LEN + 6, |sum| match l4(sum) {
            _ if sum == 0 => 0, // RFC 768: no checksum
            0 => 0xffff,
            new => new,
        }),
    }
    put(bytes, 12, write.source.octets());
    put(bytes, 16, write.destination.octets());
    let (source, destination) = write.ports.split();
    for (at, port) in [(SOURCE, source), (DESTINATION, destination)] {
        if let Some(port) = port {
            put(bytes, ipv4::HEADER_LEN + at, port.to_be_bytes());
        }
    }
    true
}

/// Takes one from the time to live (RFC 1812 section 5.3.1); false, and nothing changes, where none is
/// left.
pub fn decrement_ttl(bytes: &mut [u8]) -> bool {
    let Some(ttl) = bytes.get(8).copied().filter(|ttl| *ttl > 1) else { return false };
    put(bytes, 8, [ttl - 1]);
    // the 16-bit word is TTL and protocol, of which only the former changes
    update(bytes, 10, |sum| checksum::update(sum, u16::from(ttl) << 8, u16::from(ttl - 1) << 8));
    true
}

/// Turns an ICMP error about a packet that was rewritten into one about the packet as it was before,
/// for whoever sent that: `write` is that of the entry that [`Tuple::of_answer_to_quoted`] finds. The
/// answer has the source `from`.
#[must_use]
pub fn rewrite_error(error: &Packet<'_>, write: Tuple, from: Ipv4Addr) -> Option<Vec<u8>> {
    let mut message = error.payload().to_vec();
    quoted(error)?;
    if !rewrite(message.get_mut(ICMP_LEN..)?, write.turned()) {
        return None;
    }
    put(&mut message, 2, [0, 0]);
    let checksum = Sum::default().bytes(&message).finish();
    put(&mut message, 2, checksum);
    let (protocol, ttl) = (protocol::ICMP, 64);
    let repr = ipv4::Repr { source: from, destination: write.destination, protocol, ttl };
    Some([&repr.emit(message.len())?[..], &message].concat())
}

fn addresses(sum: u16, old: Tuple, new: Tuple) -> u16 {
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

fn update(bytes: &mut [u8], at: usize, new: impl Fn(u16) -> u16) {
    if let Some(field) = bytes.get_mut(at..).and_then(|tail| tail.first_chunk_mut::<2>()) {
        *field = new(u16::from_be_bytes(*field)).to_be_bytes();
    }
}

fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    if let Some(field) = bytes.get_mut(at..).and_then(|tail| tail.first_chunk_mut()) {
        *field = value;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A tuple, and another one of the same place.
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

    /// A packet of TCP or UDP with right checksums.
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
        fn checksums_stay_right((mut bytes, write) in packet()) {
            assert_valid(&bytes);
            prop_assert!(rewrite(&mut bytes, write));
            assert_valid(&bytes);
            let found = Tuple::of(&Packet::parse(&bytes).unwrap(), write.ports.place());
            prop_assert_eq!(found, Some(write));
            prop_assert!(decrement_ttl(&mut bytes));
            assert_valid(&bytes);
            prop_assert_eq!(bytes[8], 8);
        }

        /// What is written back is what it was, but for the two forms of zero (RFC 1624 section 3).
        #[test]
        fn rewriting_back_restores((bytes, write) in packet()) {
            let mut copy = bytes.clone();
            let old = Tuple::of(&Packet::parse(&bytes).unwrap(), write.ports.place()).unwrap();
            rewrite(&mut copy, write);
            rewrite(&mut copy, old);
            assert_valid(&copy);
            prop_assert_eq!(copy, bytes);
        }

        /// A wrong checksum is wrong by as much afterwards.
        #[test]
        fn damage_is_not_repaired((mut bytes, write) in packet()) {
            bytes[34] ^= 1;
            rewrite(&mut bytes, write);
            let packet = Packet::parse(&bytes).unwrap();
            let (source, destination) = (packet.source(), packet.destination());
            prop_assert_ne!(
                l4_sum(source, destination, packet.protocol(), packet.payload()), [0, 0]
            );
        }

        #[test]
        fn no_checksum_stays_none((mut bytes, write) in packet()) {
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

            // the entry by which answers return
            let found = Tuple::of_answer_to_quoted(&error, place.opposite());
            prop_assert_eq!(found, Some(write.turned()));
            let from = Ipv4Addr::new(192, 0, 2, 1);
            let told = rewrite_error(&error, own.turned(), from).unwrap();
            let told = Packet::parse(&told).unwrap();
            prop_assert_eq!((told.source(), told.destination()), (from, own.source));
            prop_assert_eq!(Sum::default().bytes(told.payload()).finish(), [0, 0]);
            prop_assert_eq!(&told.payload()[4..8], &[0, 0, 5, 120]);
            prop_assert_eq!(&told.payload()[8..], &original[..quote.len()]);
        }

        #[test]
        fn no_bytes_panic(mut bytes: Vec<u8>, (write, _) in tuples()) {
            if let Ok(packet) = Packet::parse(&bytes) {
                let _ = Tuple::of(&packet, write.ports.place());
                let _ = Tuple::of_answer_to_quoted(&packet, write.ports.place());
                let _ = rewrite_error(&packet, write, write.source);
            }
            rewrite(&mut bytes, write);
            decrement_ttl(&mut bytes);
        }
    }

    #[test]
    fn the_last_hop_is_the_last() {
        let ports = Ports::Source(3);
        let tuple = Tuple { source: [1; 4].into(), destination: [2; 4].into(), ports };
        let mut bytes = build(tuple, protocol::TCP, vec![0; 20]);
        bytes[8] = 1;
        assert!(!decrement_ttl(&mut bytes));
        assert_eq!(bytes[8], 1);
    }
}
