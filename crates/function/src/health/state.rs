//! Up or down by consecutive results (rise and fall). No clock, no I/O.

use std::time::Duration;

use super::document::Check;

/// The state of one check.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    down: bool,
    /// Consecutive results that contradict the state.
    streak: u32,
    /// Checks so far.
    pub(crate) checks: u64,
    /// Checks that failed.
    pub(crate) failures: u64,
    /// Reason of the last failure.
    pub(crate) reason: Option<String>,
}

impl State {
    /// Whether the check is up. It is until enough checks have failed.
    pub(crate) fn is_up(&self) -> bool {
        !self.down
    }

    /// Records a result; returns whether the state has changed.
    pub(crate) fn observe(&mut self, check: &Check, outcome: Result<(), String>) -> bool {
        self.checks += 1;
        let failed = outcome.is_err();
        if let Err(reason) = outcome {
            self.failures += 1;
            self.reason = Some(reason);
        }
        if failed == self.down {
            self.streak = 0;
            return false;
        }
        self.streak += 1;
        let threshold = if self.down { check.rise } else { check.fall };
        let changes = self.streak >= threshold;
        if changes {
            self.down = failed;
            self.streak = 0;
        }
        changes
    }

    /// Time until the next check.
    pub(crate) fn pause(&self, check: &Check) -> Duration {
        let settled = !self.down && self.streak == 0;
        Duration::from_millis(if settled { check.interval_ms } else { check.retry_ms }.into())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{from_value, json};

    use super::*;

    fn check(rise: u32, fall: u32) -> Check {
        let by = json!({"tcp": {"address": "192.0.2.1:80"}});
        from_value(json!({"by": by, "rise": rise, "fall": fall})).unwrap()
    }

    fn outcome(up: bool) -> Result<(), String> {
        if up { Ok(()) } else { Err("refused".into()) }
    }

    #[test]
    fn single_failures_are_forgiven() {
        let (check, mut state) = (check(2, 3), State::default());
        let changes: Vec<_> = [false, false, true, false, false, false, true, false, true, true]
            .map(|up| state.observe(&check, outcome(up)))
            .into();
        let at: Vec<_> = changes.iter().enumerate().filter_map(|(n, c)| c.then_some(n)).collect();
        assert_eq!(at, [5, 9]);
        assert_eq!((state.checks, state.failures, state.is_up()), (10, 6, true));
        assert_eq!(state.reason.as_deref(), Some("refused"));
    }

    /// When a check whose function is down from `from` until `until` (ms) changes, on virtual time.
    fn changes(check: &Check, from: u64, until: u64, silent: bool) -> Vec<u64> {
        let (mut state, mut now, mut found) = (State::default(), 0, Vec::new());
        while now < until + 10_000 {
            let up = now < from || now >= until;
            now += if up || !silent { 0 } else { u64::from(check.timeout_ms) };
            if state.observe(check, outcome(up)) {
                found.push(now);
            }
            now += u64::try_from(state.pause(check).as_millis()).unwrap();
        }
        found
    }

    proptest! {
        #[test]
        fn a_state_changes_when_as_many_results_in_a_row_say_so(
            results in proptest::collection::vec(any::<bool>(), 0..200), rise in 1_u32..5, fall in 1_u32..5,
        ) {
            let (check, mut state) = (check(rise, fall), State::default());
            let mut row = 0;
            for up in results {
                let before = state.is_up();
                row = if up == before { 0 } else { row + 1 };
                let changed = state.observe(&check, outcome(up));
                let enough = row >= if before { fall } else { rise };
                prop_assert_eq!(changed, enough);
                prop_assert_eq!(state.is_up(), before ^ enough);
                if enough { row = 0 }
            }
        }

        #[test]
        fn an_outage_is_noticed_in_time_and_its_end_too(
            from in 0_u64..5000, length in 3000_u64..9000, silent: bool, rise in 1_u32..4, fall in 1_u32..4,
        ) {
            let check = check(rise, fall);
            let (interval, retry) = (u64::from(check.interval_ms), u64::from(check.retry_ms));
            let timeout = if silent { u64::from(check.timeout_ms) } else { 0 };
            let found = changes(&check, from, from + length, silent);
            prop_assert_eq!(found.len(), 2);
            let falls = interval + u64::from(fall) * timeout + u64::from(fall - 1) * retry;
            prop_assert!(found[0] - from <= falls, "{:?}", found);
            prop_assert!(found[1] - from - length <= timeout + u64::from(rise) * retry, "{:?}", found);
        }
    }
}
