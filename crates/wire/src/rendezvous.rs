//! Messages of the rendezvous: a gateway tells its peers where it sees them, and introduces two of them to each
//! other (docs/design/addresses.md).
//!
//! Each is one QUIC datagram between two gateways that have authenticated each other. Both form bits of the first
//! byte are set, as in padding and in no packet's header.
//!
//! ```text
//! byte  0      1                          2 .. 3        4       5       6 ...
//!       0xc3   1 observed                 address
//!              2 request                  peer          group   member
//!              3 introduction             peer          group   member  wait (16 bits, ms), address
//!       0xc4   peer (16 bits), group, member, datagram of the path
//! ```
//!
//! An address is 4 or 6, a port (16 bits), and 4 or 16 bytes.

use std::net::{IpAddr, SocketAddr};

use crate::Malformed;

/// First byte of an [`Observed`](Message::Observed), a [`Request`](Message::Request) and an
/// [`Introduction`](Message::Introduction).
const MESSAGE: u8 = 0xc3;

/// First byte of a [`Relayed`].
const RELAYED: u8 = 0xc4;

mod kind {
    pub(super) const OBSERVED: u8 = 1;
    pub(super) const REQUEST: u8 = 2;
    pub(super) const INTRODUCTION: u8 = 3;
}

/// Length of the longest [`Message`], bytes.
pub const MESSAGE_MAX_LEN: usize = 8 + ADDRESS_MAX_LEN;

/// Family, port, IPv6 address.
const ADDRESS_MAX_LEN: usize = 19;

/// A member path between the receiver of a message, or its sender, and another gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Meeting {
    /// Number of the other gateway's branch.
    pub peer: u16,
    /// Path group.
    pub group: u8,
    /// Member path of the group, from 0.
    pub member: u8,
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// The address from which packets of this connection arrive: the receiver's reflexive transport address
    /// (RFC 8489 section 5).
    Observed(SocketAddr),
    /// The sender asks to be introduced.
    Request(Meeting),
    /// Both ends of a path are told to open it at the same time.
    Introduction {
        /// The path.
        meeting: Meeting,
        /// Time until then, ms, from when the message was sent.
        wait_ms: u16,
        /// Reflexive transport address of the other end.
        address: SocketAddr,
    },
}

/// Whether a datagram is a message or a relayed datagram.
#[must_use]
pub fn is_of_rendezvous(datagram: &[u8]) -> bool {
    matches!(datagram.first(), Some(&(MESSAGE | RELAYED)))
}

impl Message {
    /// Parses a datagram; None if it is not a message.
    ///
    /// # Errors
    /// The datagram violates the format, or has an address to which nothing may be sent.
    #[must_use]
    pub fn parse(datagram: &[u8]) -> Option<Result<Self, Malformed>> {
        let (&first, rest) = datagram.split_first()?;
        (first == MESSAGE).then(|| Self::read(rest))
    }

    fn read(bytes: &[u8]) -> Result<Self, Malformed> {
        let short = Malformed::new("message length", 1, bytes.len() as u64, "more");
        let (&kind, rest) = bytes.split_first().ok_or(short)?;
        match kind {
            kind::OBSERVED => Ok(Self::Observed(address(rest, 2)?)),
            kind::REQUEST => {
                let (meeting, rest) = Meeting::split(rest).ok_or(short)?;
                if !rest.is_empty() {
                    return Err(Malformed::new("message length", 1, bytes.len() as u64, "5"));
                }
                Ok(Self::Request(meeting))
            }
            kind::INTRODUCTION => {
                let (meeting, rest) = Meeting::split(rest).ok_or(short)?;
                let (wait, rest) = rest.split_first_chunk().ok_or(short)?;
                let wait_ms = u16::from_be_bytes(*wait);
                Ok(Self::Introduction { meeting, wait_ms, address: address(rest, 8)? })
            }
            _ => Err(Malformed::new("message kind", 1, kind.into(), "1 to 3")),
        }
    }

    /// The message's bytes.
    #[must_use]
    pub fn emit(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(MESSAGE_MAX_LEN);
        bytes.push(MESSAGE);
        match self {
            Self::Observed(address) => {
                bytes.push(kind::OBSERVED);
                push(&mut bytes, *address);
            }
            Self::Request(meeting) => {
                bytes.push(kind::REQUEST);
                bytes.extend(meeting.emit());
            }
            Self::Introduction { meeting, wait_ms, address } => {
                bytes.push(kind::INTRODUCTION);
                bytes.extend(meeting.emit());
                bytes.extend(wait_ms.to_be_bytes());
                push(&mut bytes, *address);
            }
        }
        bytes
    }
}

impl Meeting {
    fn split(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (&[high, low, group, member], rest) = bytes.split_first_chunk()?;
        Some((Self { peer: u16::from_be_bytes([high, low]), group, member }, rest))
    }

    fn emit(self) -> [u8; 4] {
        let [high, low] = self.peer.to_be_bytes();
        [high, low, self.group, self.member]
    }
}

/// Reads an address that fills `bytes`, which begin at `offset`.
fn address(bytes: &[u8], offset: usize) -> Result<SocketAddr, Malformed> {
    let (ip, port): (IpAddr, _) = match *bytes {
        [4, high, low, ref ip @ ..] if ip.len() == 4 => {
            (<[u8; 4]>::try_from(ip).unwrap_or_default().into(), [high, low])
        }
        [6, high, low, ref ip @ ..] if ip.len() == 16 => {
            (<[u8; 16]>::try_from(ip).unwrap_or_default().into(), [high, low])
        }
        _ => {
            let found = bytes.first().copied().unwrap_or(0).into();
            return Err(Malformed::new(
                "address family",
                offset,
                found,
                "4 or 6, and a whole address",
            ));
        }
    };
    let port = u16::from_be_bytes(port);
    if port == 0 {
        return Err(Malformed::new("port", offset + 1, 0, "1 to 65535"));
    }
    if !is_host(ip) {
        return Err(Malformed::new("address", offset + 3, 0, "the address of one other host"));
    }
    Ok(SocketAddr::new(ip, port))
}

/// Whether an address may be another host's: nobody is to be made to send to all, or to itself.
fn is_host(ip: IpAddr) -> bool {
    let is_v4_host = |ip: std::net::Ipv4Addr| !ip.is_broadcast() && ip.octets() != [0; 4];
    let special = ip.is_unspecified() || ip.is_multicast() || ip.is_loopback();
    !special
        && match ip {
            IpAddr::V4(ip) => is_v4_host(ip),
            // IPv4 in IPv6 would evade the rules for IPv4.
            IpAddr::V6(ip) => ip.to_ipv4_mapped().is_none(),
        }
}

fn push(bytes: &mut Vec<u8>, address: SocketAddr) {
    bytes.push(if address.is_ipv4() { 4 } else { 6 });
    bytes.extend(address.port().to_be_bytes());
    match address.ip() {
        IpAddr::V4(ip) => bytes.extend(ip.octets()),
        IpAddr::V6(ip) => bytes.extend(ip.octets()),
    }
}

/// A datagram of a path between two gateways that leads through a third: from one of them, for the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relayed<'a> {
    /// The path. Its peer is the gateway for which the datagram is, on the way to the one that relays it, and from there the
    /// gateway from which it comes.
    pub meeting: Meeting,
    /// A UDP payload: QUIC packets.
    pub datagram: &'a [u8],
}

/// Length of the header of a [`Relayed`], bytes.
pub const RELAYED_HEADER_LEN: usize = 5;

impl<'a> Relayed<'a> {
    /// Parses a datagram; None if it is not a relayed one.
    ///
    /// # Errors
    /// The datagram violates the format.
    #[must_use]
    pub fn parse(bytes: &'a [u8]) -> Option<Result<Self, Malformed>> {
        let (&first, rest) = bytes.split_first()?;
        (first == RELAYED).then(|| match Meeting::split(rest) {
            Some((meeting, datagram)) if !datagram.is_empty() => Ok(Self { meeting, datagram }),
            _ => Err(Malformed::new("relayed length", 0, bytes.len() as u64, "6 or more")),
        })
    }

    /// Its bytes.
    #[must_use]
    pub fn emit(&self) -> Vec<u8> {
        [&[RELAYED], self.meeting.emit().as_slice(), self.datagram].concat()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        fragment::is_fragment,
        tunnel::{HEADER_LEN, Header, is_padding},
    };

    fn any_address() -> impl Strategy<Value = SocketAddr> {
        (any::<IpAddr>(), 1_u16..)
            .prop_filter("of a host", |(ip, _)| is_host(*ip))
            .prop_map(|(ip, port)| SocketAddr::new(ip, port))
    }

    fn any_meeting() -> impl Strategy<Value = Meeting> {
        any::<(u16, u8, u8)>().prop_map(|(peer, group, member)| Meeting { peer, group, member })
    }

    fn any_message() -> impl Strategy<Value = Message> {
        prop_oneof![
            any_address().prop_map(Message::Observed),
            any_meeting().prop_map(Message::Request),
            (any_meeting(), any::<u16>(), any_address()).prop_map(|(meeting, wait_ms, address)| {
                Message::Introduction { meeting, wait_ms, address }
            }),
        ]
    }

    proptest! {
        #[test]
        fn an_emitted_message_parses(message in any_message()) {
            let bytes = message.emit();
            prop_assert!(bytes.len() <= MESSAGE_MAX_LEN && is_of_rendezvous(&bytes));
            prop_assert_eq!(Message::parse(&bytes), Some(Ok(message)));
            prop_assert!(Message::parse(&[bytes.as_slice(), &[0]].concat()).unwrap().is_err());
            prop_assert!(Message::parse(&bytes[..bytes.len() - 1]).unwrap().is_err());
        }

        #[test]
        fn messages_are_no_packets(message in any_message()) {
            let bytes = [message.emit().as_slice(), &[0; HEADER_LEN]].concat();
            prop_assert!(Header::parse(&bytes).is_err() && !is_padding(&bytes) && !is_fragment(&bytes));
            prop_assert_eq!(Relayed::parse(&bytes), None);
        }

        #[test]
        fn an_emitted_relayed_datagram_parses(meeting in any_meeting(), datagram in proptest::collection::vec(any::<u8>(), 1..50)) {
            let relayed = Relayed { meeting, datagram: &datagram };
            let bytes = relayed.emit();
            prop_assert_eq!(bytes.len(), RELAYED_HEADER_LEN + datagram.len());
            prop_assert_eq!(Relayed::parse(&bytes), Some(Ok(relayed)));
            prop_assert!(Message::parse(&bytes).is_none() && Header::parse(&bytes).is_err());
        }

        #[test]
        fn what_parses_is_emitted_the_same(first in prop_oneof![Just(MESSAGE), Just(RELAYED)], rest in proptest::collection::vec(prop_oneof![0..8_u8, any::<u8>()], 0..40)) {
            let bytes = [&[first], rest.as_slice()].concat();
            if let Some(Ok(message)) = Message::parse(&bytes) {
                prop_assert_eq!(message.emit(), bytes.clone());
            }
            if let Some(Ok(relayed)) = Relayed::parse(&bytes) {
                prop_assert_eq!(relayed.emit(), bytes);
            }
        }
    }

    #[test]
    fn nobody_is_sent_to_an_address_that_is_not_one_hosts() {
        for address in [
            "0.0.0.0:9",
            "127.0.0.1:9",
            "224.0.0.1:9",
            "255.255.255.255:9",
            "[::]:9",
            "[::1]:9",
            "[ff02::1]:9",
            "[::ffff:127.0.0.1]:9",
        ] {
            let bytes = Message::Observed(address.parse().unwrap()).emit();
            assert_eq!(Message::parse(&bytes).unwrap().unwrap_err().field, "address", "{address}");
        }
        let bytes = Message::Observed("192.0.2.1:0".parse().unwrap()).emit();
        assert_eq!(Message::parse(&bytes).unwrap().unwrap_err().field, "port");
        assert_eq!(Message::parse(&[MESSAGE, 9]).unwrap().unwrap_err().field, "message kind");
    }
}
