//! Most that this branch sends of each class, to all peers together.
//!
//! Packets of a class that has used up its rate wait in the queues of their path groups, under CoDel;
//! connections of the TCP proxy are not read. Retransmissions and duplicates are not counted: the
//! limit is for what the branch's hosts send.

use std::time::Instant;

use hawser_multipath::{Limiter, Rate};

use crate::config::Class;

/// A limiter for each class that has one.
#[derive(Default)]
pub(crate) struct Limits {
    of: [Option<Limiter>; 2],
    /// When the first class that was not admitted will be.
    next: Option<Instant>,
}

impl Limits {
    /// Applies a configuration, by class, bit/s. Limits that stay go on.
    pub(crate) fn set(&mut self, now: Instant, max_rate_bps: [Option<u64>; 2]) {
        for (limiter, bps) in self.of.iter_mut().zip(max_rate_bps) {
            let rate = bps.map(|bps| Rate::from_bytes_per_second(bps as f64 / 8.0));
            if limiter.as_ref().map(Limiter::rate) != rate {
                *limiter = rate.map(|rate| Limiter::new(now, rate));
            }
        }
        self.next = Some(now);
    }

    /// Whether a packet of a class may be sent now; if not, [`Self::poll_timeout`] says when to ask
    /// again.
    pub(crate) fn admits(&mut self, now: Instant, class: Class) -> bool {
        let limiter = self.of.get_mut(class as usize).and_then(Option::as_mut);
        let Some(at) = limiter.and_then(|limiter| limiter.wait(now)) else { return true };
        self.next = self.next.into_iter().chain([at]).min();
        false
    }

    /// Bytes of a class are sent.
    pub(crate) fn take(&mut self, now: Instant, class: Class, bytes: u64) {
        if let Some(limiter) = self.of.get_mut(class as usize).and_then(Option::as_mut) {
            limiter.take(now, bytes);
        }
    }

    /// When [`Self::expire`] is due.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.next
    }

    /// Whether a class that was not admitted may be by now.
    pub(crate) fn expire(&mut self, now: Instant) -> bool {
        self.next.take_if(|at| *at <= now).is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_class_has_its_own_rate() {
        let (mut limits, now) = (Limits::default(), Instant::now());
        limits.set(now, [None, Some(8_000_000)]);
        assert!(limits.expire(now));
        limits.take(now, Class::I, 1 << 30);
        limits.take(now, Class::II, 124_000);
        assert!(limits.admits(now, Class::I));
        assert_eq!(limits.poll_timeout(), None);
        assert!(!limits.admits(now, Class::II));
        let at = limits.poll_timeout().unwrap();
        assert!((at - now).abs_diff(Duration::from_millis(100)) < Duration::from_millis(1));
        assert!(!limits.expire(at.checked_sub(Duration::from_millis(1)).unwrap()));
        assert!(limits.expire(at));
        assert!(limits.admits(at, Class::II));
        limits.set(at, [None, None]);
        limits.take(at, Class::II, 1 << 30);
        assert!(limits.admits(at, Class::II));
    }
}
