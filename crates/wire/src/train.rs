//! Trains of packets that measure a path (docs/design/path-program.md, Trains between gateways).
//!
//! Each message is one QUIC datagram between two gateways that have authenticated each other. Both form bits of
//! the first byte are set, as in padding and in no packet's header.
//!
//! ```text
//! byte  0      1            2 .. 5   6 .. 7   8 .. 9   10 ...
//!       0xc5   1 frame      train    number   padding
//!              2 request    train    first
//!              3 report     train    first    total    origin (64 bits), arrivals
//! ```
//!
//! A frame is timed. A request asks for the arrivals of a train's frames, in the order in which they came, from the
//! first-th on. A report has some of them and says how many there are in all. An arrival is the frame's number
//! (16 bits), and its time (32 bits) in microseconds since the first, which was so many microseconds (the origin) after
//! the connection began at the receiver.

use crate::Malformed;

/// First byte of every message.
const TRAIN: u8 = 0xc5;

mod kind {
    pub(super) const FRAME: u8 = 1;
    pub(super) const REQUEST: u8 = 2;
    pub(super) const REPORT: u8 = 3;
}

/// Length of the header of a frame, and of a request, bytes.
pub const HEADER_LEN: usize = 8;

/// Length of the header of a report, bytes.
const REPORT_LEN: usize = 18;

/// Length of an arrival, bytes.
const ARRIVAL_LEN: usize = 6;

/// Frames of a train at most.
pub const MAX_FRAMES: u16 = 50_000;

/// Arrivals in a report at most: it fits every path.
pub const MAX_ARRIVALS: usize = 180;

/// Whether a datagram is a message of a train.
#[must_use]
pub fn is_of_train(datagram: &[u8]) -> bool {
    datagram.first() == Some(&TRAIN)
}

/// A frame's arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Number of the frame.
    pub number: u16,
    /// Time since the first arrival, microseconds.
    pub time_us: u32,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// One of the timed frames. Its padding is ignored.
    Frame {
        /// The train.
        train: u32,
        /// Number of the frame, counted from 0 in the order of sending.
        number: u16,
    },
    /// The sender of a train asks what has arrived.
    Request {
        /// The train.
        train: u32,
        /// Arrivals that it knows already.
        first: u16,
    },
    /// What has arrived.
    Report {
        /// The train.
        train: u32,
        /// Arrivals before these.
        first: u16,
        /// Arrivals in all.
        total: u16,
        /// Time of the first arrival, microseconds since the connection began.
        origin_us: u64,
        /// Arrivals in the order of time.
        arrivals: Vec<Arrival>,
    },
}

impl Message {
    /// Parses a datagram; None if it is not of a train.
    ///
    /// # Errors
    /// The datagram violates the format.
    #[must_use]
    pub fn parse(datagram: &[u8]) -> Option<Result<Self, Malformed>> {
        is_of_train(datagram).then(|| Self::read(datagram))
    }

    fn read(datagram: &[u8]) -> Result<Self, Malformed> {
        let len = datagram.len() as u64;
        let Some((&[_, kind, t3, t2, t1, t0, high, low], rest)) = datagram.split_first_chunk()
        else {
            return Err(Malformed::new("train length", 0, len, "8 or more"));
        };
        let (train, number) =
            (u32::from_be_bytes([t3, t2, t1, t0]), u16::from_be_bytes([high, low]));
        if number > MAX_FRAMES {
            return Err(Malformed::new("frame number", 6, number.into(), "50000 or less"));
        }
        match kind {
            kind::FRAME if number < MAX_FRAMES => Ok(Self::Frame { train, number }),
            kind::FRAME => Err(Malformed::new("frame number", 6, number.into(), "49999 or less")),
            kind::REQUEST if rest.is_empty() => Ok(Self::Request { train, first: number }),
            kind::REQUEST => Err(Malformed::new("request length", 0, len, "8")),
            kind::REPORT => Self::report(train, number, rest),
            _ => Err(Malformed::new("message kind", 1, kind.into(), "1 to 3")),
        }
    }

    fn report(train: u32, first: u16, rest: &[u8]) -> Result<Self, Malformed> {
        let len = (HEADER_LEN + rest.len()) as u64;
        let Some((&total, rest)) = rest.split_first_chunk() else {
            return Err(Malformed::new("report length", 0, len, "18 or more"));
        };
        let Some((&origin, rest)) = rest.split_first_chunk() else {
            return Err(Malformed::new("report length", 0, len, "18 or more"));
        };
        let (total, origin_us) = (u16::from_be_bytes(total), u64::from_be_bytes(origin));
        let (chunks, left) = rest.as_chunks::<ARRIVAL_LEN>();
        if !left.is_empty() || chunks.len() > MAX_ARRIVALS {
            return Err(Malformed::new(
                "report length",
                0,
                len,
                "18, and 6 for each of 180 arrivals or fewer",
            ));
        }
        if total > MAX_FRAMES || usize::from(first) + chunks.len() > usize::from(total) {
            return Err(Malformed::new(
                "arrivals in all",
                8,
                total.into(),
                "50000 or less, and all that are told",
            ));
        }
        let arrivals: Vec<_> = chunks.iter().copied().map(Arrival::read).collect();
        match arrivals.iter().find(|arrival| arrival.number >= MAX_FRAMES) {
            None => Ok(Self::Report { train, first, total, origin_us, arrivals }),
            Some(Arrival { number, .. }) => {
                Err(Malformed::new("frame number", REPORT_LEN, u64::from(*number), "49999 or less"))
            }
        }
    }

    /// The message's bytes; a frame without padding.
    #[must_use]
    pub fn emit(&self) -> Vec<u8> {
        match self {
            Self::Frame { train, number } => head(kind::FRAME, *train, *number),
            Self::Request { train, first } => head(kind::REQUEST, *train, *first),
            Self::Report { train, first, total, origin_us, arrivals } => {
                let mut bytes = head(kind::REPORT, *train, *first);
                bytes.reserve(REPORT_LEN - HEADER_LEN + ARRIVAL_LEN * arrivals.len());
                bytes.extend(total.to_be_bytes());
                bytes.extend(origin_us.to_be_bytes());
                for Arrival { number, time_us } in arrivals {
                    bytes.extend(number.to_be_bytes());
                    bytes.extend(time_us.to_be_bytes());
                }
                bytes
            }
        }
    }
}

impl Arrival {
    fn read([n1, n0, t3, t2, t1, t0]: [u8; ARRIVAL_LEN]) -> Self {
        let time_us = u32::from_be_bytes([t3, t2, t1, t0]);
        Self { number: u16::from_be_bytes([n1, n0]), time_us }
    }
}

fn head(kind: u8, train: u32, number: u16) -> Vec<u8> {
    let mut bytes = vec![TRAIN, kind];
    bytes.extend(train.to_be_bytes());
    bytes.extend(number.to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        fragment::is_fragment,
        rendezvous::is_of_rendezvous,
        tunnel::{HEADER_LEN as PACKET_HEADER_LEN, Header, flow_of_unknown_context, is_padding},
    };

    fn any_message() -> impl Strategy<Value = Message> {
        let arrival = (0..MAX_FRAMES, any::<u32>());
        let arrival = arrival.prop_map(|(number, time_us)| Arrival { number, time_us });
        let arrivals = proptest::collection::vec(arrival, 0..=MAX_ARRIVALS);
        prop_oneof![
            (any::<u32>(), 0..MAX_FRAMES)
                .prop_map(|(train, number)| Message::Frame { train, number }),
            (any::<u32>(), 0..=MAX_FRAMES)
                .prop_map(|(train, first)| Message::Request { train, first }),
            (any::<(u32, u64)>(), 0..10_000_u16, 0..10_000_u16, arrivals).prop_map(
                |((train, origin_us), first, more, arrivals)| {
                    let total = first + more + u16::try_from(arrivals.len()).unwrap();
                    Message::Report { train, first, total, origin_us, arrivals }
                }
            ),
        ]
    }

    proptest! {
        #[test]
        fn an_emitted_message_parses(message in any_message()) {
            prop_assert_eq!(Message::parse(&message.emit()), Some(Ok(message)));
        }

        #[test]
        fn padding_of_frames_is_ignored(train: u32, number in 0..MAX_FRAMES, padding: Vec<u8>) {
            let frame = Message::Frame { train, number };
            prop_assert_eq!(Message::parse(&[frame.emit(), padding].concat()), Some(Ok(frame)));
        }

        #[test]
        fn messages_are_nothing_else(message in any_message()) {
            let bytes = [message.emit(), vec![0; PACKET_HEADER_LEN]].concat();
            prop_assert!(Header::parse(&bytes).is_err() && !is_padding(&bytes));
            prop_assert!(!is_fragment(&bytes) && !is_of_rendezvous(&bytes));
            prop_assert_eq!(flow_of_unknown_context(&bytes), None);
        }

        #[test]
        fn what_parses_is_emitted_the_same(rest in proptest::collection::vec(prop_oneof![0..8_u8, any::<u8>()], 0..40)) {
            let bytes = [&[TRAIN], rest.as_slice()].concat();
            match Message::parse(&bytes).unwrap() {
                Ok(frame @ Message::Frame { .. }) => prop_assert_eq!(frame.emit(), &bytes[..HEADER_LEN]),
                Ok(other) => prop_assert_eq!(other.emit(), bytes),
                Err(_) => {}
            }
        }
    }

    #[test]
    fn forged_lengths_and_numbers_are_refused() {
        let field = |bytes: &[u8]| Message::parse(bytes).unwrap().unwrap_err().field;
        assert_eq!(Message::parse(&[]), None);
        assert_eq!(field(&[TRAIN, 1, 0, 0, 0, 1, 0]), "train length");
        assert_eq!(field(&[TRAIN, 1, 0, 0, 0, 1, 0xff, 0xff]), "frame number");
        assert_eq!(field(&[TRAIN, 2, 0, 0, 0, 1, 0, 0, 0]), "request length");
        assert_eq!(field(&[TRAIN, 3, 0, 0, 0, 1, 0, 0]), "report length");
        assert_eq!(field(&[TRAIN, 3, 0, 0, 0, 1, 0, 0, 0, 5, 1, 2, 3]), "report length");
        assert_eq!(field(&[&[TRAIN, 3], [0; 17].as_slice()].concat()), "report length");
        assert_eq!(field(&[TRAIN, 4, 0, 0, 0, 1, 0, 0]), "message kind");
        let told = [0, 1, 0, 0, 0, 9];
        let head =
            |total: u8| [&[TRAIN, 3, 0, 0, 0, 1, 0, 0, 0, total], [7; 8].as_slice()].concat();
        let all = |total: u8| [head(total), told.to_vec()].concat();
        assert!(Message::parse(&all(1)).unwrap().is_ok());
        assert_eq!(field(&all(0)), "arrivals in all");
        let long = [all(200), told.repeat(MAX_ARRIVALS)].concat();
        assert_eq!(field(&long), "report length");
    }
}
