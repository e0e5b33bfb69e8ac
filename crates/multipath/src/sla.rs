//! Thresholds of a class, and whether a path meets them: with a margin and with delays, so that a
//! path near a threshold is not left and taken again all the time (docs/design/sla.md).

use std::time::{Duration, Instant};

use crate::rate::Rate;

/// Time after a return within which leaving again doubles the next delay.
const UNSTABLE: Duration = Duration::from_mins(1);

/// Most doublings of the delay: 16 times `enter_after`.
const MAX_DOUBLINGS: u32 = 4;

/// Bytes within about eight seconds below which a share of lost ones means nothing: at one probe a
/// second, one lost probe would be an eighth.
const MIN_EVIDENCE: f64 = 24_000.0;

/// What a path has to offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sla {
    /// Least rate, bit/s.
    pub rate_bps: Option<u64>,
    /// Greatest one-way delay, taken as half of the smoothed RTT.
    pub delay: Option<Duration>,
    /// Greatest RTT variation.
    pub jitter: Option<Duration>,
    /// Greatest fraction of lost bytes, in millionths.
    pub loss_ppm: Option<u32>,
    /// By what fraction a path has to be better than all that before it is used again, in
    /// millionths.
    pub margin_ppm: u32,
    /// For how long a path has to be worse before it is left.
    pub leave_after: Duration,
    /// For how long it has to be better before it is used again.
    pub enter_after: Duration,
}

/// What a path offers at present; None where nothing is known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Quality {
    /// Rate.
    pub rate: Option<Rate>,
    /// One-way delay.
    pub delay: Option<Duration>,
    /// RTT variation.
    pub jitter: Option<Duration>,
    /// Fraction of lost bytes.
    pub loss: Option<f64>,
}

impl Sla {
    /// Whether a path meets all thresholds, each tightened by a fraction.
    fn is_met(&self, path: &Quality, margin: f64) -> bool {
        let at_most = |limit: Option<f64>, found: Option<f64>| {
            limit.zip(found).is_none_or(|(limit, found)| found <= limit * (1.0 - margin))
        };
        let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
        let rate = self
            .rate_bps
            .zip(path.rate)
            .is_none_or(|(least, found)| found.bits_per_second() >= least as f64 * (1.0 + margin));
        rate && at_most(seconds(self.delay), seconds(path.delay))
            && at_most(seconds(self.jitter), seconds(path.jitter))
            && at_most(self.loss_ppm.map(|ppm| f64::from(ppm) / 1e6), path.loss)
    }
}

/// Whether a path complies with a class's thresholds. A new one does until it is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compliance {
    left: bool,
    /// Since when the measurements say otherwise.
    since: Option<Instant>,
    returned: Option<Instant>,
    doublings: u32,
}

impl Compliance {
    /// Whether it complies.
    #[must_use]
    pub fn complies(&self) -> bool {
        !self.left
    }

    /// Judges the path by what it offers now; called several times a second.
    pub fn update(&mut self, now: Instant, sla: &Sla, path: &Quality) {
        let margin = if self.left { f64::from(sla.margin_ppm) / 1e6 } else { 0.0 };
        if sla.is_met(path, margin) != self.left {
            self.since = None;
            return;
        }
        let since = *self.since.get_or_insert(now);
        let waited = now.saturating_duration_since(since);
        if self.left && waited >= sla.enter_after * (1 << self.doublings) {
            *self = Self { left: false, since: None, returned: Some(now), ..*self };
        } else if !self.left && waited >= sla.leave_after {
            let soon = |at: Instant| now.saturating_duration_since(at) < UNSTABLE;
            let again = self.returned.is_some_and(soon);
            let doublings = if again { (self.doublings + 1).min(MAX_DOUBLINGS) } else { 0 };
            *self = Self { left: true, since: None, doublings, ..*self };
        }
    }
}

/// Fraction of bytes lost, if enough were sent to judge.
pub(crate) fn loss(acked: f64, lost: f64) -> Option<f64> {
    (acked + lost >= MIN_EVIDENCE).then(|| lost / (acked + lost))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SLA: Sla = Sla {
        rate_bps: Some(1_000_000),
        delay: Some(Duration::from_millis(50)),
        jitter: Some(Duration::from_millis(10)),
        loss_ppm: Some(10_000),
        margin_ppm: 100_000,
        leave_after: Duration::from_secs(2),
        enter_after: Duration::from_secs(10),
    };

    fn delayed(ms: u64) -> Quality {
        Quality { delay: Some(Duration::from_millis(ms)), ..Quality::default() }
    }

    /// Judges every 50 ms for a time; returns when it ended.
    fn run(found: &mut Compliance, from: Instant, path: Quality, ms: u64) -> Instant {
        for at in (0..ms).step_by(50) {
            found.update(from + Duration::from_millis(at), &SLA, &path);
        }
        from + Duration::from_millis(ms)
    }

    #[test]
    fn each_threshold_counts_and_what_is_unknown_does_not() {
        assert!(SLA.is_met(&Quality::default(), 0.0));
        let rate = |rate| Some(Rate::from_bytes_per_second(rate));
        let good = Quality {
            rate: rate(125_000.0),
            delay: SLA.delay,
            jitter: SLA.jitter,
            loss: Some(0.01),
        };
        assert!(SLA.is_met(&good, 0.0), "each is at its threshold");
        assert!(!SLA.is_met(&Quality { rate: rate(124_000.0), ..good }, 0.0));
        assert!(!SLA.is_met(&Quality { delay: Some(Duration::from_millis(51)), ..good }, 0.0));
        assert!(!SLA.is_met(&Quality { jitter: Some(Duration::from_millis(11)), ..good }, 0.0));
        assert!(!SLA.is_met(&Quality { loss: Some(0.011), ..good }, 0.0));
        assert!(!SLA.is_met(&good, 0.1), "not by the margin");
    }

    #[test]
    fn a_path_is_left_and_used_again_after_their_delays() {
        let (mut found, start) = (Compliance::default(), Instant::now());
        let now = run(&mut found, start, delayed(60), 1900);
        assert!(found.complies(), "for less than two seconds");
        let now = run(&mut found, now, delayed(40), 50);
        let now = run(&mut found, now, delayed(60), 2000);
        assert!(found.complies(), "it was better in between");
        let now = run(&mut found, now, delayed(60), 50);
        assert!(!found.complies());
        let now = run(&mut found, now, delayed(48), 60_000);
        assert!(!found.complies(), "it meets the threshold, but not by the margin");
        let now = run(&mut found, now, delayed(40), 9_900);
        assert!(!found.complies());
        run(&mut found, now, delayed(40), 200);
        assert!(found.complies());
    }

    #[test]
    fn a_path_that_does_not_keep_its_promise_has_to_be_better_for_longer() {
        let (mut found, mut now) = (Compliance::default(), Instant::now());
        let mut waits = Vec::new();
        for _ in 0..7 {
            now = run(&mut found, now, delayed(60), 2100);
            let left = now;
            while !found.complies() {
                now = run(&mut found, now, delayed(40), 50);
            }
            waits.push((now - left).as_secs());
        }
        assert_eq!(waits, [10, 20, 40, 80, 160, 160, 160]);
        now = run(&mut found, now, delayed(40), 60_000);
        now = run(&mut found, now, delayed(60), 2100);
        run(&mut found, now, delayed(40), 10_100);
        assert!(found.complies(), "a minute without fault, and all is forgotten");
    }

    #[test]
    fn a_lost_probe_is_no_loss() {
        assert_eq!(loss(7.0 * 1200.0, 1200.0), None);
        assert_eq!(loss(30_000.0, 10_000.0), Some(0.25));
    }

    proptest! {
        /// Whatever is measured, the state changes no sooner than its delay allows.
        #[test]
        fn no_state_is_shorter_than_its_delay(delays in proptest::collection::vec(30_u64..70, 1..2000)) {
            let (mut found, start) = (Compliance::default(), Instant::now());
            let (mut changed, mut before) = (start, true);
            for (n, ms) in (0..).zip(delays) {
                let now = start + Duration::from_millis(50) * n;
                found.update(now, &SLA, &delayed(ms));
                if found.complies() != before {
                    let least = if before { SLA.leave_after } else { SLA.enter_after };
                    prop_assert!(now - changed >= least);
                    (changed, before) = (now, found.complies());
                }
            }
        }
    }
}
