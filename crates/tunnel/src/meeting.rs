//! What a member path knows of its introductions (docs/design/addresses.md, Both ends behind NAT).

use std::time::{Duration, Instant};

/// Least time between two requests, and between two introductions.
pub(crate) const INTERVAL: Duration = Duration::from_secs(1);

/// Time for which both ends try to open a path.
const WINDOW: Duration = Duration::from_secs(5);

/// Interval at which they send while they do.
const OPENING_INTERVAL: Duration = Duration::from_millis(250);

/// Pause after the first introduction in vain, doubled with each, and the longest. The first is short, for the rendezvous may
/// not have seen yet that the peer has moved; the later ones let a NAT forget packets that came too early.
const PAUSE: (Duration, Duration) = (Duration::from_secs(2), Duration::from_mins(1));

/// Time without a direct connection after which the path leads through the rendezvous.
const RELAY_AFTER: Duration = Duration::from_secs(5);

/// Introductions of a path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Meeting {
    /// Since when it has had no direct connection that works.
    since: Option<Instant>,
    next_request: Option<Instant>,
    /// The last introduction, and how many there were since a direct connection last worked.
    introduced: Option<Instant>,
    vain: u32,
    /// When to send next, and until when.
    opening: Option<(Instant, Instant)>,
}

impl Meeting {
    /// Notes whether the path has a direct connection that works, as far as is known: an end that is idle notices later that
    /// it does not, so the path is opened all the same.
    pub(crate) fn note(&mut self, direct: bool, now: Instant) {
        if direct {
            let Self { introduced, opening, .. } = *self;
            *self = Self { introduced, opening, ..Self::default() };
        } else {
            self.since.get_or_insert(now);
        }
    }

    /// Whether the rendezvous is to be asked; it is not again for a while.
    pub(crate) fn wants_introduction(&mut self, now: Instant) -> bool {
        let due = self.since.is_some() && self.next_request.is_none_or(|at| at <= now);
        if due {
            self.next_request = Some(now + INTERVAL);
        }
        due
    }

    /// Whether the path should lead through the rendezvous.
    pub(crate) fn wants_relay(&self, now: Instant) -> bool {
        self.since.is_some_and(|since| now.saturating_duration_since(since) >= RELAY_AFTER)
    }

    /// An address has changed: what was in vain may not be any more.
    pub(crate) fn start_again(&mut self, now: Instant) {
        (self.vain, self.next_request) = (0, self.since.map(|_| now));
    }

    /// The rendezvous has introduced the peer, to be met at `start`; returns whether it was not too soon after the
    /// last time.
    pub(crate) fn introduce(&mut self, start: Instant, now: Instant) -> bool {
        let pause = INTERVAL / 2;
        if self.introduced.is_some_and(|last| now.saturating_duration_since(last) < pause) {
            return false;
        }
        let (first, longest) = PAUSE;
        let pause = first.saturating_mul(1 << self.vain.min(8)).min(longest);
        self.vain = self.vain.saturating_add(1);
        (self.introduced, self.next_request) = (Some(now), Some(now + pause));
        self.opening = Some((start, start + WINDOW));
        true
    }

    /// When to send next in order to open the path.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.opening.map(|(at, _)| at)
    }

    /// Whether it is time to send in order to open the path.
    pub(crate) fn opens(&mut self, now: Instant) -> bool {
        let Some((at, until)) = self.opening.filter(|(at, _)| *at <= now) else { return false };
        let next = at.max(now) + OPENING_INTERVAL;
        self.opening = (next < until).then_some((next, until));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn requests_are_repeated_each_second_until_there_is_an_introduction() {
        let (mut meeting, start) = (Meeting::default(), Instant::now());
        assert!(!meeting.wants_introduction(start), "nothing is missing");
        meeting.note(false, start);
        let asked = |meeting: &mut Meeting, ms: u32| meeting.wants_introduction(start + ms * MS);
        assert_eq!(
            [0, 500, 1000, 1500].map(|ms| asked(&mut meeting, ms)),
            [true, false, true, false]
        );
        assert!(meeting.introduce(start, start + 1500 * MS));
        assert_eq!([2500, 3499, 3500].map(|ms| asked(&mut meeting, ms)), [false, false, true]);
        assert!(meeting.introduce(start, start + 3500 * MS));
        assert_eq!([4500, 7499, 7500].map(|ms| asked(&mut meeting, ms)), [false, false, true]);
        assert!(meeting.introduce(start, start + 7500 * MS));
        assert!(!asked(&mut meeting, 8000));
        meeting.start_again(start + 8000 * MS);
        assert!(asked(&mut meeting, 8000));
    }

    #[test]
    fn introductions_that_come_too_fast_are_ignored() {
        let (mut meeting, now) = (Meeting::default(), Instant::now());
        assert!(meeting.introduce(now, now));
        assert!(!meeting.introduce(now, now + 400 * MS));
        assert!(meeting.introduce(now, now + 600 * MS));
        meeting.note(true, now + 700 * MS);
        assert!(!meeting.introduce(now, now + 800 * MS), "also after success");
    }

    #[test]
    fn a_path_is_opened_for_five_seconds() {
        let (mut meeting, start) = (Meeting::default(), Instant::now());
        meeting.note(false, start);
        assert!(meeting.introduce(start + 100 * MS, start));
        assert!(!meeting.opens(start + 99 * MS));
        let mut sent =
            |span: std::ops::Range<u32>| span.filter(|ms| meeting.opens(start + *ms * MS)).count();
        assert_eq!((sent(0..1000), sent(1000..10_000)), (4, 16));
        assert_eq!(meeting.poll_timeout(), None);
        assert!(!meeting.wants_relay(start + 4999 * MS) && meeting.wants_relay(start + 5000 * MS));
        meeting.note(true, start + 5000 * MS);
        assert!(!meeting.wants_relay(start + 20000 * MS));
    }

    #[test]
    fn an_end_that_takes_the_path_to_work_opens_it_all_the_same() {
        let (mut meeting, start) = (Meeting::default(), Instant::now());
        assert!(meeting.introduce(start + 100 * MS, start));
        meeting.note(true, start + 50 * MS);
        assert!(meeting.opens(start + 100 * MS));
    }
}
