//! The payload of a load generator's frame: 18 bytes behind the UDP header, so that a minimum-size IPv4
//! frame holds it.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------------------------------+-------------------------------+
//! |        Magic ("HW")           |      Flow (24 bits)           |
//! +---------------+---------------+-------------------------------+
//! | Flow          |       Timestamp (40 bits, ns)                 |
//! +---------------+---------------+-------------------------------+
//! | Timestamp                     |              Run              |
//! +-------------------------------+-------------------------------+
//! |                Sequence number (48 bits)                      |
//! +                               +-------------------------------+
//! |                               |
//! +-------------------------------+
//! ```
//!
//! The timestamp is the sender's `CLOCK_MONOTONIC` modulo 2^40 ns (18 minutes). Run and sequence number form
//! one 64-bit number; the run keeps a frame of an earlier trial from being counted in this one. The eBPF
//! programs write and read the same layout.

use crate::Malformed;

/// Length of the payload, bytes.
pub const LEN: usize = 18;
/// The magic number: "HW".
pub const MAGIC: u16 = 0x4857;
/// Number of flows that the field can hold.
pub const FLOWS_MAX: u32 = 1 << 24;

const TIME_MASK: u64 = (1 << 40) - 1;
const SEQUENCE_MASK: u64 = (1 << 48) - 1;

mod field {
    use std::ops::Range;

    pub(super) const MAGIC: Range<usize> = 0..2;
    pub(super) const FLOW_TIME: Range<usize> = 2..10;
    pub(super) const RUN_SEQUENCE: Range<usize> = 10..18;
}

/// The values of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Index of the flow, below [`FLOWS_MAX`].
    pub flow: u32,
    /// Time of sending, ns modulo 2^40.
    pub time_ns: u64,
    /// Number of the run.
    pub run: u16,
    /// Sequence number within the flow, below 2^48.
    pub sequence: u64,
}

impl Repr {
    /// Parses a payload, which padding may follow.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let found = bytes.len() as u64;
        let short =
            Malformed { field: "load payload", offset: 0, found, expected: "18 bytes or more" };
        let bytes = bytes.first_chunk::<LEN>().ok_or(short)?;
        let magic = number(bytes, field::MAGIC);
        if magic != u64::from(MAGIC) {
            let expected = "0x4857";
            return Err(Malformed { field: "load magic", offset: 0, found: magic, expected });
        }
        let flow_time = number(bytes, field::FLOW_TIME);
        let run_sequence = number(bytes, field::RUN_SEQUENCE);
        #[allow(clippy::cast_possible_truncation)] // 24 and 16 bits remain
        Ok(Self {
            flow: (flow_time >> 40) as u32,
            time_ns: flow_time & TIME_MASK,
            run: (run_sequence >> 48) as u16,
            sequence: run_sequence & SEQUENCE_MASK,
        })
    }

    /// The payload. Bits beyond the fields' widths are dropped.
    #[must_use]
    pub fn emit(&self) -> [u8; LEN] {
        let flow_time = u64::from(self.flow % FLOWS_MAX) << 40 | self.time_ns & TIME_MASK;
        let run_sequence = u64::from(self.run) << 48 | self.sequence & SEQUENCE_MASK;
        let mut bytes = [0; LEN];
        bytes[field::MAGIC].copy_from_slice(&MAGIC.to_be_bytes());
        bytes[field::FLOW_TIME].copy_from_slice(&flow_time.to_be_bytes());
        bytes[field::RUN_SEQUENCE].copy_from_slice(&run_sequence.to_be_bytes());
        bytes
    }

    /// One-way delay of a frame that arrived at `now_ns` of the same clock, ns.
    #[must_use]
    pub fn delay_ns(&self, now_ns: u64) -> u64 {
        now_ns.wrapping_sub(self.time_ns) & TIME_MASK
    }
}

/// A field of up to eight bytes as a number.
fn number(bytes: &[u8; LEN], field: std::ops::Range<usize>) -> u64 {
    let bytes = bytes.get(field).unwrap_or_default();
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_emitted_parses(
            flow in 0..FLOWS_MAX, time_ns in 0..=TIME_MASK, run: u16, sequence in 0..=SEQUENCE_MASK,
        ) {
            let repr = Repr { flow, time_ns, run, sequence };
            prop_assert_eq!(Repr::parse(&repr.emit()), Ok(repr));
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(repr) = Repr::parse(&bytes) {
                prop_assert_eq!(&repr.emit()[..], &bytes[..LEN]);
            }
        }
    }

    #[test]
    fn a_delay_may_wrap_around() {
        let repr = Repr { flow: 0, time_ns: TIME_MASK, run: 0, sequence: 0 };
        assert_eq!(repr.delay_ns((1 << 40) + 9), 10);
    }
}
