//! Size of writes to a connection (docs/design/mptcp.md, Writes and congestion control).
//!
//! Linux assigns each write of up to 64 KiB to the subflow that will drain first. At some Mbit/s
//! that occupies a path for 50 ms while the others idle; at some Gbit/s small writes cost too much
//! CPU. So a write carries what the connection carries in a fixed time.

use std::time::{Duration, Instant};

/// Duration of a write at the rate of the connection.
const WRITE_TIME: Duration = Duration::from_micros(250);

/// Interval over which the rate is measured; long enough to average over filling the send buffer.
const RATE_WINDOW: Duration = Duration::from_millis(50);

/// Size, bytes, from which on writes are not cut.
const MAX_WRITE: usize = 32 << 10;

/// `TCP_NOTSENT_LOWAT`, bytes, while writes are not cut.
const MAX_UNSENT: u32 = 256 << 10;

/// Segment size, bytes, until the connection reports it: that of an Ethernet path.
const DEFAULT_SEGMENT: usize = 1420;

/// Adapts the size of writes to the rate.
#[derive(Debug)]
pub(super) struct WriteSize {
    since: Instant,
    sent: usize,
    segment: usize,
    bytes: usize,
}

impl WriteSize {
    /// For a connection that has sent nothing.
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, sent: 0, segment: DEFAULT_SEGMENT, bytes: DEFAULT_SEGMENT }
    }

    /// Bytes per write: a multiple of a segment.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// `TCP_NOTSENT_LOWAT`, bytes. What waits in the kernel is handed out in large pieces again.
    pub(super) fn unsent(&self) -> u32 {
        u32::try_from(self.bytes.saturating_mul(2))
            .map_or(MAX_UNSENT, |bytes| bytes.min(MAX_UNSENT))
    }

    /// Counts bytes sent. At the end of an interval `segment` reports the segment size; returns
    /// whether the write size has changed.
    pub(super) fn sent(
        &mut self,
        n: usize,
        now: Instant,
        segment: impl FnOnce() -> Option<usize>,
    ) -> bool {
        self.sent += n;
        let elapsed = now.saturating_duration_since(self.since);
        if elapsed < RATE_WINDOW {
            return false;
        }
        let before = self.bytes;
        self.segment = segment().filter(|bytes| *bytes > 0).unwrap_or(self.segment);
        let sent = u128::try_from(self.sent).unwrap_or(u128::MAX);
        let span = sent.saturating_mul(WRITE_TIME.as_nanos()) / elapsed.as_nanos().max(1);
        let span = usize::try_from(span).unwrap_or(usize::MAX);
        self.bytes = match span {
            MAX_WRITE.. => usize::MAX,
            _ => (span / self.segment).max(1) * self.segment,
        };
        (self.since, self.sent) = (now, 0);
        self.bytes != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Write size after one second at this rate, in Mbit/s.
    fn at_rate(rate: usize) -> usize {
        let mut now = Instant::now();
        let mut write_size = WriteSize::new(now);
        for _ in 0..1000 {
            now += Duration::from_millis(1);
            write_size.sent(rate * 125, now, || Some(1000));
        }
        write_size.bytes()
    }

    #[test]
    fn writes_grow_with_the_rate() {
        assert_eq!([1, 33, 100, 500].map(at_rate), [1000, 1000, 3000, 15_000]);
        assert_eq!([2000, 10_000].map(at_rate), [usize::MAX; 2]);
    }

    #[test]
    fn notsent_lowat_is_small_unless_writes_are_large() {
        let now = Instant::now();
        let mut write_size = WriteSize::new(now);
        assert_eq!(write_size.unsent(), 2840);
        assert!(write_size.sent(100 << 20, now + RATE_WINDOW, || None));
        assert_eq!(write_size.unsent(), MAX_UNSENT);
    }

    #[test]
    fn a_connection_starts_with_single_segments() {
        let now = Instant::now();
        let mut write_size = WriteSize::new(now);
        write_size.sent(1 << 20, now + Duration::from_millis(1), || Some(1000));
        assert_eq!(write_size.bytes(), DEFAULT_SEGMENT);
    }

    #[test]
    fn writes_shrink_after_a_pause() {
        let now = Instant::now();
        let mut write_size = WriteSize::new(now);
        write_size.sent(100 << 20, now + RATE_WINDOW, || None);
        assert_eq!(write_size.bytes(), usize::MAX);
        write_size.sent(1000, now + Duration::from_secs(1), || None);
        assert_eq!(write_size.bytes(), DEFAULT_SEGMENT);
    }
}
