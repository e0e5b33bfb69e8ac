//! What gateways tell each other of TCP connections that they terminate (the TCP lane of the `quic`
//! transport).
//!
//! A [`Message`] fills a unidirectional QUIC stream of one of the paths between the two. Messages may
//! come in any order and more than once.

use std::net::{IpAddr, SocketAddr};

use crate::Malformed;

/// Bytes of the longest header.
pub const HEADER_MAX_LEN: usize = FIXED_LEN + 5 + 2 * 18;

/// Bytes of the header of [`Kind::Data`].
pub const DATA_LEN: usize = FIXED_LEN + 6;

/// Payload of the longest message.
pub const PAYLOAD_MAX_LEN: usize = 64 << 10;

/// Bytes that a connection may carry each way: offsets have 48 bits.
pub const OFFSET_MAX: u64 = (1 << 48) - 1;

const FIXED_LEN: usize = 5;

const DATA: u8 = 1;
const END: u8 = 2;
const OPEN: u8 = 3;
const OPENED: u8 = 4;
const CREDIT: u8 = 5;
const RESET: u8 = 6;

/// A header; what follows it in the stream is payload, which only [`Kind::Data`] has.
///
/// ```text
/// byte  0      1 .. 4           5 ...
///       kind   flow number      1, 2 offset (6)
///                               3    window (4), family 4 or 6, source and destination: address, port
///                               4    window (4)
///                               5    limit (6)
///                               6    reason (1)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Number of the connection, given by who opens it: even by the gateway that makes the QUIC
    /// connections, odd by the other.
    pub flow: u32,
    /// What is said of it.
    pub kind: Kind,
}

/// What is said of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The payload stands at this offset of the stream of bytes.
    Data {
        /// Bytes before it.
        offset: u64,
        /// Whether the stream of bytes ends with it.
        end: bool,
    },
    /// A client wants to connect.
    Open {
        /// Who it is.
        source: SocketAddr,
        /// To whom; of the same family.
        destination: SocketAddr,
        /// Bytes that may be sent to it at first.
        window: u32,
    },
    /// The other end has been connected to.
    Opened {
        /// Bytes that may be sent to it at first.
        window: u32,
    },
    /// Bytes up to this offset may be sent.
    Credit {
        /// The offset.
        limit: u64,
    },
    /// The connection has been reset, or could not be made.
    Reset(Reason),
}

/// Why a connection is no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The end reset it.
    Reset,
    /// The end refused it.
    Refused,
    /// The end cannot be reached.
    Unreachable,
    /// The end does not answer.
    TimedOut,
    /// The gateway does not allow it.
    Denied,
    /// The gateway has too many connections.
    Full,
    /// The other gateway broke the rules of this protocol.
    Violation,
}

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
    /// Splits what a stream carried into header and payload.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let mut reader = Reader { bytes, at: 0 };
        let [kind] = reader.take("kind")?;
        let flow = u32::from_be_bytes(reader.take("flow")?);
        let kind = match kind {
            DATA | END => Kind::Data { offset: reader.offset()?, end: kind == END },
            OPEN => reader.open()?,
            OPENED => Kind::Opened { window: u32::from_be_bytes(reader.take("window")?) },
            CREDIT => Kind::Credit { limit: reader.offset()? },
            RESET => Kind::Reset(reader.reason()?),
            _ => return Err(wrong("kind", 0, kind.into(), "1 to 6")),
        };
        let payload = bytes.get(reader.at..).unwrap_or_default();
        let most = if matches!(kind, Kind::Data { .. }) { PAYLOAD_MAX_LEN } else { 0 };
        if payload.len() > most {
            let found = payload.len() as u64;
            return Err(wrong("payload length", reader.at, found, "0, or of data up to 65536"));
        }
        Ok((Self { flow, kind }, payload))
    }

    /// As it stands before the payload.
    #[must_use]
    pub fn emit(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_MAX_LEN);
        out.push(self.code());
        out.extend(self.flow.to_be_bytes());
        match self.kind {
            Kind::Data { offset, .. } => out.extend(six(offset)),
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
            Kind::Credit { limit } => out.extend(six(limit)),
            Kind::Reset(reason) => {
                let place = REASONS.iter().position(|known| *known == reason).unwrap_or_default();
                out.push(u8::try_from(place).unwrap_or_default());
            }
        }
        out
    }

    const fn code(&self) -> u8 {
        match self.kind {
            Kind::Data { end: false, .. } => DATA,
            Kind::Data { end: true, .. } => END,
            Kind::Open { .. } => OPEN,
            Kind::Opened { .. } => OPENED,
            Kind::Credit { .. } => CREDIT,
            Kind::Reset(_) => RESET,
        }
    }
}

/// The lower 48 bits.
fn six(offset: u64) -> [u8; 6] {
    let [_, _, rest @ ..] = offset.to_be_bytes();
    rest
}

const fn wrong(
    field: &'static str,
    offset: usize,
    found: u64,
    expected: &'static str,
) -> Malformed {
    Malformed { field, offset, found, expected }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], Malformed> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let short = wrong(field, self.at, rest.len() as u64, "more bytes");
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
        known.ok_or(wrong("reason", at, code.into(), "0 to 6"))
    }

    fn open(&mut self) -> Result<Kind, Malformed> {
        let window = u32::from_be_bytes(self.take("window")?);
        let at = self.at;
        let [family] = self.take("family")?;
        if family != 4 && family != 6 {
            return Err(wrong("family", at, family.into(), "4 or 6"));
        }
        let (source, destination) = (self.end(family)?, self.end(family)?);
        Ok(Kind::Open { source, destination, window })
    }

    fn end(&mut self, family: u8) -> Result<SocketAddr, Malformed> {
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
        fn a_message_survives(flow: u32, kind in kinds(), payload: Vec<u8>) {
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
