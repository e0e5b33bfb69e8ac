//! Messages between two gateways about the TCP connections that they proxy (the TCP proxy of the `quic`
//! transport, docs/design/tcp-proxy.md).
//!
//! A [`Message`] fills one unidirectional QUIC stream on one of the paths between the two gateways. Messages
//! may arrive in any order and more than once.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+-----------------------------------------------+
//! |     Kind      |               Flow (32 bits)                  |
//! +---------------+-----------------------------------------------+
//! |               |        depends on the kind ...
//! +---------------+
//!
//! Kind         Fields behind the flow (bits)
//! 1 data       Offset (48), payload
//! 2 data, end  Offset (48), payload
//! 3 open       Window (32), Family (8): 4 or 6, Source Address (32 or 128), Source Port (16),
//!              Destination Address (32 or 128), Destination Port (16)
//! 4 opened     Window (32)
//! 5 credit     Limit (48)
//! 6 reset      Reason (8)
//! ```

use std::net::{IpAddr, SocketAddr};

use crate::Malformed;

/// Length of the longest header, bytes.
pub const HEADER_MAX_LEN: usize = FIXED_LEN + 5 + 2 * 18;

/// Length of the header of [`Kind::Data`], bytes.
pub const DATA_LEN: usize = FIXED_LEN + 6;

/// Longest payload of a message, bytes.
pub const PAYLOAD_MAX_LEN: usize = 64 << 10;

/// Bytes that a connection can carry in each direction: offsets have 48 bits.
pub const OFFSET_MAX: u64 = (1 << 48) - 1;

/// Length of the fields that all messages have: kind and flow.
const FIXED_LEN: usize = 5;

mod kind {
    pub(super) const DATA: u8 = 1;
    pub(super) const DATA_END: u8 = 2;
    pub(super) const OPEN: u8 = 3;
    pub(super) const OPENED: u8 = 4;
    pub(super) const CREDIT: u8 = 5;
    pub(super) const RESET: u8 = 6;
}

/// The header of a message. The rest of the stream is payload, which only [`Kind::Data`] has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Number of the connection, chosen by the gateway that opens it: even if that gateway is the QUIC
    /// client, odd otherwise.
    pub flow: u32,
    /// Kind of the message, with its fields.
    pub kind: Kind,
}

/// Kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Payload bytes of the connection.
    Data {
        /// Offset of the payload in the byte stream.
        offset: u64,
        /// Whether the byte stream ends with this payload.
        end: bool,
    },
    /// A client has connected; the peer shall connect to the server.
    Open {
        /// Address and port of the client.
        source: SocketAddr,
        /// Address and port of the server, of the same family.
        destination: SocketAddr,
        /// Initial window: bytes that the peer may send.
        window: u32,
    },
    /// The server has accepted the connection.
    Opened {
        /// Initial window: bytes that the peer may send.
        window: u32,
    },
    /// Flow control credit.
    Credit {
        /// Offset up to which the peer may send.
        limit: u64,
    },
    /// The connection was reset, or could not be established.
    Reset(Reason),
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The host reset it.
    Reset,
    /// The host refused it.
    Refused,
    /// The host is unreachable.
    Unreachable,
    /// The host did not answer.
    TimedOut,
    /// The gateway's policy forbids it.
    Denied,
    /// The gateway has too many connections.
    Full,
    /// The other gateway violated this protocol.
    Violation,
}

/// Reasons by their number on the wire.
const REASONS: [Reason; 7] = [
    Reason::Reset,
    Reason::Refused,
    Reason::Unreachable,
    Reason::TimedOut,
    Reason::Denied,
    Reason::Full,
    Reason::Violation,
];

impl Message {
    /// Splits the bytes of a stream into header and payload.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let mut reader = Reader { bytes, at: 0 };
        let [kind] = reader.take("kind")?;
        let flow = u32::from_be_bytes(reader.take("flow")?);
        let kind = match kind {
            kind::DATA | kind::DATA_END => {
                Kind::Data { offset: reader.offset()?, end: kind == kind::DATA_END }
            }
            kind::OPEN => reader.open()?,
            kind::OPENED => Kind::Opened { window: u32::from_be_bytes(reader.take("window")?) },
            kind::CREDIT => Kind::Credit { limit: reader.offset()? },
            kind::RESET => Kind::Reset(reader.reason()?),
            _ => return Err(Malformed::new("kind", 0, kind.into(), "1 to 6")),
        };
        let payload = bytes.get(reader.at..).unwrap_or_default();
        let max = if matches!(kind, Kind::Data { .. }) { PAYLOAD_MAX_LEN } else { 0 };
        if payload.len() > max {
            let found = payload.len() as u64;
            return Err(Malformed::new(
                "payload length",
                reader.at,
                found,
                "0, or of data up to 65536",
            ));
        }
        Ok((Self { flow, kind }, payload))
    }

    /// The header's bytes.
    #[must_use]
    pub fn emit(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_MAX_LEN);
        out.push(self.code());
        out.extend(self.flow.to_be_bytes());
        match self.kind {
            Kind::Data { offset, .. } => out.extend(offset_bytes(offset)),
            Kind::Open { source, destination, window } => {
                out.extend(window.to_be_bytes());
                out.push(if source.is_ipv4() { 4 } else { 6 });
                for end in [source, destination] {
                    match end.ip() {
                        IpAddr::V4(address) => out.extend(address.octets()),
                        IpAddr::V6(address) => out.extend(address.octets()),
                    }
                    out.extend(end.port().to_be_bytes());
                }
            }
            Kind::Opened { window } => out.extend(window.to_be_bytes()),
            Kind::Credit { limit } => out.extend(offset_bytes(limit)),
            Kind::Reset(reason) => {
                let code = REASONS.iter().position(|known| *known == reason).unwrap_or_default();
                out.push(u8::try_from(code).unwrap_or_default());
            }
        }
        out
    }

    const fn code(&self) -> u8 {
        match self.kind {
            Kind::Data { end: false, .. } => kind::DATA,
            Kind::Data { end: true, .. } => kind::DATA_END,
            Kind::Open { .. } => kind::OPEN,
            Kind::Opened { .. } => kind::OPENED,
            Kind::Credit { .. } => kind::CREDIT,
            Kind::Reset(_) => kind::RESET,
        }
    }
}

/// The low 48 bits of an offset.
fn offset_bytes(offset: u64) -> [u8; 6] {
    let [_, _, bytes @ ..] = offset.to_be_bytes();
    bytes
}

/// Reads fields one after the other.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], Malformed> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let short = Malformed::new(field, self.at, rest.len() as u64, "more bytes");
        let found = rest.first_chunk::<N>().copied().ok_or(short)?;
        self.at += N;
        Ok(found)
    }

    fn offset(&mut self) -> Result<u64, Malformed> {
        let bytes: [u8; 6] = self.take("offset")?;
        Ok(bytes.iter().fold(0, |offset, byte| offset << 8 | u64::from(*byte)))
    }

    fn reason(&mut self) -> Result<Reason, Malformed> {
        let at = self.at;
        let [code] = self.take("reason")?;
        let known = REASONS.get(usize::from(code)).copied();
        known.ok_or(Malformed::new("reason", at, code.into(), "0 to 6"))
    }

    fn open(&mut self) -> Result<Kind, Malformed> {
        let window = u32::from_be_bytes(self.take("window")?);
        let at = self.at;
        let [family] = self.take("family")?;
        if family != 4 && family != 6 {
            return Err(Malformed::new("family", at, family.into(), "4 or 6"));
        }
        let (source, destination) = (self.address(family)?, self.address(family)?);
        Ok(Kind::Open { source, destination, window })
    }

    fn address(&mut self, family: u8) -> Result<SocketAddr, Malformed> {
        let address = match family {
            4 => IpAddr::from(self.take::<4>("address")?),
            _ => IpAddr::from(self.take::<16>("address")?),
        };
        Ok(SocketAddr::new(address, u16::from_be_bytes(self.take("port")?)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ends() -> impl Strategy<Value = (SocketAddr, SocketAddr)> {
        let four = any::<([u8; 4], u16, [u8; 4], u16)>();
        let six = any::<([u8; 16], u16, [u8; 16], u16)>();
        prop_oneof![
            four.prop_map(|(a, p, b, q)| ((a, p).into(), (b, q).into())),
            six.prop_map(|(a, p, b, q)| ((a, p).into(), (b, q).into())),
        ]
    }

    fn kinds() -> impl Strategy<Value = Kind> {
        prop_oneof![
            (0..=OFFSET_MAX, any::<bool>()).prop_map(|(offset, end)| Kind::Data { offset, end }),
            (ends(), any::<u32>()).prop_map(|((source, destination), window)| Kind::Open {
                source,
                destination,
                window
            }),
            any::<u32>().prop_map(|window| Kind::Opened { window }),
            (0..=OFFSET_MAX).prop_map(|limit| Kind::Credit { limit }),
            proptest::sample::select(&REASONS).prop_map(Kind::Reset),
        ]
    }

    proptest! {
        #[test]
        fn what_is_emitted_parses(flow: u32, kind in kinds(), payload: Vec<u8>) {
            let message = Message { flow, kind };
            let payload = if matches!(kind, Kind::Data { .. }) { payload } else { Vec::new() };
            let bytes = [message.emit(), payload.clone()].concat();
            prop_assert!(bytes.len() - payload.len() <= HEADER_MAX_LEN);
            prop_assert_eq!(Message::parse(&bytes), Ok((message, payload.as_slice())));
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            if let Ok((message, payload)) = Message::parse(&bytes) {
                prop_assert_eq!([message.emit().as_slice(), payload].concat(), bytes);
            }
        }
    }

    #[test]
    fn errors_name_the_field() {
        let (source, destination) = (([10, 1, 0, 2], 5).into(), ([10, 2, 0, 2], 80).into());
        let open = Message { flow: 2, kind: Kind::Open { source, destination, window: 9 } }.emit();
        let field = |bytes: &[u8]| Message::parse(bytes).unwrap_err().field;
        assert_eq!(field(&[]), "kind");
        assert_eq!(field(&[7, 0, 0, 0, 0]), "kind");
        assert_eq!(field(&[6, 0, 0, 0, 0, 7]), "reason");
        assert_eq!(field(&[1, 0, 0, 0, 0, 1, 2]), "offset");
        assert_eq!(field(&open[..open.len() - 1]), "port");
        assert_eq!(field(&[open.as_slice(), &[0]].concat()), "payload length");
        let mut other = open.clone();
        other[9] = 5;
        assert_eq!(field(&other), "family");
    }
}
