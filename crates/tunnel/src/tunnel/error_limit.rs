//! Rate limit of ICMP errors.

use std::time::{Duration, Instant};

/// Least time between two ICMP errors to flows that share a place, and the places: a flood of
/// packets is not answered by another (RFC 1812 section 4.3.2.8, RFC 4443 section 2.4 (f)).
const ERROR_INTERVAL: Duration = Duration::from_millis(100);
const PLACES: u16 = 64;

/// When flows were last sent an ICMP error.
#[derive(Debug)]
pub(super) struct ErrorLimit([Option<Instant>; PLACES as usize]);

impl Default for ErrorLimit {
    fn default() -> Self {
        Self([None; PLACES as usize])
    }
}

impl ErrorLimit {
    /// Whether a flow may be sent an error now.
    pub(super) fn admit(&mut self, now: Instant, flow: u16) -> bool {
        let Some(last) = self.0.get_mut(usize::from(flow % PLACES)) else { return false };
        let admitted =
            last.is_none_or(|last| now.saturating_duration_since(last) >= ERROR_INTERVAL);
        if admitted {
            *last = Some(now);
        }
        admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_to_a_flow_are_limited_and_others_get_theirs() {
        let (mut limit, now) = (ErrorLimit::default(), Instant::now());
        assert_eq!([1, 1, 2].map(|flow| limit.admit(now, flow)), [true, false, true]);
        assert!(!limit.admit(now + ERROR_INTERVAL / 2, 1));
        assert!(limit.admit(now + ERROR_INTERVAL, 1));
    }
}
