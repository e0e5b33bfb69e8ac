//! The payload of a load frame: 18 bytes of UDP payload, so that a 60-byte IPv4 frame holds it.
//!
//! ```text
//!  0       2               5                          10                                  18
//!  | magic | flow (24 bit) | timestamp (40 bit)       | run (16 bit) | sequence (48 bit)  |
//! ```
//!
//! Network byte order. The timestamp is the sender's monotonic clock in nanoseconds, modulo 2^40
//! (18 minutes): a delay is the difference modulo 2^40. Run and sequence together are the 64-bit
//! sequence number; the run tells trials apart, so that a straggler of one is never counted in the
//! next. The eBPF programs write and read the same bytes.

use crate::Malformed;

/// Length of the payload.
pub const LEN: usize = 18;
/// "HW".
pub const MAGIC: u16 = 0x4857;
/// Flows there can be.
pub const FLOWS_MAX: u32 = 1 << 24;

const TIME_MASK: u64 = (1 << 40) - 1;
const SEQUENCE_MASK: u64 = (1 << 48) - 1;

mod field {
    use std::ops::Range;

    pub(super) const MAGIC: Range<usize> = 0..2;
    pub(super) const FLOW_TIME: Range<usize> = 2..10;
    pub(super) const SEQUENCE: Range<usize> = 10..18;
}

/// What a load frame says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Index of the flow, below [`FLOWS_MAX`].
    pub flow: u32,
    /// When it was sent, ns modulo 2^40.
    pub time_ns: u64,
    /// Number of the run.
    pub run: u16,
    /// Place in its flow, below 2^48.
    pub sequence: u64,
}

impl Repr {
    /// Reads a payload, which may be followed by filling.
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
        let sequence = number(bytes, field::SEQUENCE);
        #[allow(clippy::cast_possible_truncation)] // 24 and 16 bits are left
        Ok(Self {
            flow: (flow_time >> 40) as u32,
            time_ns: flow_time & TIME_MASK,
            run: (sequence >> 48) as u16,
            sequence: sequence & SEQUENCE_MASK,
        })
    }

    /// The payload. Bits beyond the fields' widths are dropped.
    #[must_use]
    pub fn emit(&self) -> [u8; LEN] {
        let flow_time = u64::from(self.flow % FLOWS_MAX) << 40 | self.time_ns & TIME_MASK;
        let sequence = u64::from(self.run) << 48 | self.sequence & SEQUENCE_MASK;
        let mut bytes = [0; LEN];
        bytes[field::MAGIC].copy_from_slice(&MAGIC.to_be_bytes());
        bytes[field::FLOW_TIME].copy_from_slice(&flow_time.to_be_bytes());
        bytes[field::SEQUENCE].copy_from_slice(&sequence.to_be_bytes());
        bytes
    }

    /// How long it was on its way, when it came in at `now_ns` of the same clock.
    #[must_use]
    pub fn delay_ns(&self, now_ns: u64) -> u64 {
        now_ns.wrapping_sub(self.time_ns) & TIME_MASK
    }
}

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
        fn what_is_written_is_read(
            flow in 0..FLOWS_MAX, time_ns in 0..=TIME_MASK, run: u16, sequence in 0..=SEQUENCE_MASK,
        ) {
            let repr = Repr { flow, time_ns, run, sequence };
            prop_assert_eq!(Repr::parse(&repr.emit()), Ok(repr));
        }

        #[test]
        fn anything_can_be_read(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(repr) = Repr::parse(&bytes) {
                prop_assert_eq!(&repr.emit()[..], &bytes[..LEN]);
            }
        }
    }

    #[test]
    fn a_delay_goes_past_the_end_of_the_clock() {
        let repr = Repr { flow: 0, time_ns: TIME_MASK, run: 0, sequence: 0 };
        assert_eq!(repr.delay_ns((1 << 40) + 9), 10);
    }
}
