//! How much is given to the kernel at once.
//!
//! Linux gives each write to the subflow that will have drained first, as a whole as far as 64 KiB. At
//! some Mbit/s a path takes 50 ms for that, while the others idle: small writes spread it. At some
//! Gbit/s small writes cost too much, and 64 KiB take 50 us. So a write is what the connection carries
//! in a fixed time.

use std::time::{Duration, Instant};

/// Time that a write takes at the rate of the connection. docs/design/mptcp.md has the measurement.
const SPAN: Duration = Duration::from_micros(250);

/// Time over which the rate is measured: long enough that filling the send buffer does not count much.
const WINDOW: Duration = Duration::from_millis(50);

/// From here on writes are not cut.
const LARGE: usize = 32 << 10;

/// Bytes that may wait for a subflow where writes are not cut.
const UNSENT: u32 = 256 << 10;

/// Bytes that a segment has, until the connection tells: those of an Ethernet path.
const USUAL_SEGMENT: usize = 1420;

/// Chooses the size of writes.
#[derive(Debug)]
pub(super) struct Stride {
    since: Instant,
    sent: usize,
    segment: usize,
    bytes: usize,
}

impl Stride {
    /// For a connection that has sent nothing.
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, sent: 0, segment: USUAL_SEGMENT, bytes: USUAL_SEGMENT }
    }

    /// Bytes to write at once: a multiple of a segment.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes that may wait in the kernel without a subflow: what is handed out from there goes in large
    /// pieces again.
    pub(super) fn unsent(&self) -> u32 {
        u32::try_from(self.bytes.saturating_mul(2)).map_or(UNSENT, |bytes| bytes.min(UNSENT))
    }

    /// Notes that bytes were sent. Where a window has ended, `segment` is asked for the payload of a
    /// full segment; says whether the size has changed.
    pub(super) fn sent(
        &mut self,
        n: usize,
        now: Instant,
        segment: impl FnOnce() -> Option<usize>,
    ) -> bool {
        self.sent += n;
        let elapsed = now.saturating_duration_since(self.since);
        if elapsed < WINDOW {
            return false;
        }
        let before = self.bytes;
        self.segment = segment().filter(|bytes| *bytes > 0).unwrap_or(self.segment);
        let sent = u128::try_from(self.sent).unwrap_or(u128::MAX);
        let span = sent.saturating_mul(SPAN.as_nanos()) / elapsed.as_nanos().max(1);
        let span = usize::try_from(span).unwrap_or(usize::MAX);
        self.bytes = match span {
            LARGE.. => usize::MAX,
            _ => (span / self.segment).max(1) * self.segment,
        };
        (self.since, self.sent) = (now, 0);
        self.bytes != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The size of writes after a second at this rate, in Mbit/s.
    fn at_rate(rate: usize) -> usize {
        let mut now = Instant::now();
        let mut stride = Stride::new(now);
        for _ in 0..1000 {
            now += Duration::from_millis(1);
            stride.sent(rate * 125, now, || Some(1000));
        }
        stride.bytes()
    }

    #[test]
    fn writes_grow_with_the_rate() {
        assert_eq!([1, 33, 100, 500].map(at_rate), [1000, 1000, 3000, 15_000]);
        assert_eq!([2000, 10_000].map(at_rate), [usize::MAX; 2]);
    }

    #[test]
    fn little_waits_in_the_kernel_unless_writes_are_large() {
        let now = Instant::now();
        let mut stride = Stride::new(now);
        assert_eq!(stride.unsent(), 2840);
        assert!(stride.sent(100 << 20, now + WINDOW, || None));
        assert_eq!(stride.unsent(), UNSENT);
    }

    #[test]
    fn a_connection_begins_with_single_segments() {
        let now = Instant::now();
        let mut stride = Stride::new(now);
        stride.sent(1 << 20, now + Duration::from_millis(1), || Some(1000));
        assert_eq!(stride.bytes(), USUAL_SEGMENT);
    }

    #[test]
    fn a_pause_makes_writes_small_again() {
        let now = Instant::now();
        let mut stride = Stride::new(now);
        stride.sent(100 << 20, now + WINDOW, || None);
        assert_eq!(stride.bytes(), usize::MAX);
        stride.sent(1000, now + Duration::from_secs(1), || None);
        assert_eq!(stride.bytes(), USUAL_SEGMENT);
    }
}
