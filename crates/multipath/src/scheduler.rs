//! Packet scheduler: earliest delivery first (docs/design/path-scheduling.md).
//!
//! A packet of `b` bytes sent on path `i` arrives after
//!
//! ```text
//! arrival_i = (queued_i + b) / rate_i + delay_i
//! ```
//!
//! The packet at the head goes where it arrives first. If that path's window is full, a slower path
//! may take the first packet behind
//!
//! ```text
//! skip_i = sum over faster paths j of rate_j * (arrival_i - arrival_j)
//! ```
//!
//! bytes, which arrives when the faster paths have delivered everything before it. Packets thus
//! arrive nearly in order (OTIAS: Yang, Wang and Amer, 2014; DAPS: Kuhn et al., ICC 2014). A path
//! for which the backlog is too short stays idle.

use std::time::Duration;

use crate::{
    path::{State, View},
    rate::Rate,
    sequencer::MAX_PATHS,
};

/// Maximum delay of a path over the fastest: the resequencer waits no longer.
const MAX_EXTRA_DELAY: Duration = Duration::from_millis(150);

/// Extra delay, seconds, that a path may cause if it doubles the rate; in proportion if it adds less.
/// One that adds 2 % of the faster paths' rate may cause 40 ms.
const DELAY_PER_CAPACITY: f64 = 2.0;

/// The same with the delay of retransmissions included. A lossy path with a tenth of the rate and
/// 80 ms cost the fast path a sixth of its throughput.
const DELAY_PER_CAPACITY_LOSSY: f64 = 0.5;

/// How the path is chosen. All but the default serve for comparison in simulations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Where the packet arrives first.
    #[default]
    EarliestDelivery,
    /// The next path whose window has room.
    RoundRobin,
    /// The path of the lowest delay whose window has room.
    LowestDelay,
    /// In proportion to the paths' rates.
    Weighted,
    /// The first path that is up.
    Single,
}

/// What to send next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Index of the path.
    pub path: usize,
    /// Take the packet behind this many bytes of the backlog.
    pub skip: u64,
}

/// Scheduler of one path group.
#[derive(Clone, Debug, Default)]
pub struct Scheduler {
    policy: Policy,
    /// Path used last, for [`Policy::RoundRobin`].
    last_path: usize,
    /// Bytes assigned to each path, decaying, for [`Policy::Weighted`].
    assigned: [f64; MAX_PATHS],
    /// Paths ranked for the last packet; kept to reuse its memory.
    order: Ranking,
}

/// Paths by the time at which a packet would arrive.
#[derive(Clone, Debug, Default)]
struct Ranking(Vec<Candidate>);

/// A path that may be used for a packet.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    path: usize,
    arrival: Duration,
    rate: Rate,
    has_window: bool,
    retransmission_delay: Duration,
}

impl Ranking {
    /// Ranks the paths that satisfy `usable` and take packets of this size.
    fn set(&mut self, views: &[View], bytes: u64, usable: impl Fn(&View) -> bool) -> &[Candidate] {
        self.0.clear();
        for (path, view) in views.iter().enumerate().take(MAX_PATHS) {
            if usable(view) && view.max_packet >= bytes {
                let (arrival, has_window) = (view.arrival(bytes), view.available_window >= bytes);
                let rank = self.0.partition_point(|other| other.arrival <= arrival);
                let View { rate, retransmission_delay, .. } = *view;
                self.0.insert(
                    rank,
                    Candidate { path, arrival, rate, has_window, retransmission_delay },
                );
            }
        }
        &self.0
    }
}

impl Scheduler {
    /// A scheduler with this policy.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self { policy, ..Self::default() }
    }

    /// What to send next from a backlog of `backlog` bytes. `head` is the length of its first
    /// packet, and `retransmittable` whether that is sent again when lost. None: wait.
    pub fn next(
        &mut self,
        views: &[View],
        backlog: u64,
        head: u64,
        retransmittable: bool,
    ) -> Option<Choice> {
        let usable = best_state(views)?;
        let may = |view: &View| view.state == usable && view.max_packet >= head;
        let has_room = |view: &View| may(view) && view.available_window >= head;
        let numbered = || views.iter().enumerate().take(MAX_PATHS);
        let path = match self.policy {
            Policy::EarliestDelivery => {
                return earliest(self.order.set(views, head, may), backlog, retransmittable);
            }
            Policy::Single => {
                numbered().find(|(_, view)| may(view)).filter(|(_, view)| has_room(view))?.0
            }
            Policy::RoundRobin => {
                let after = |index: usize| (index + views.len() - self.last_path - 1) % views.len();
                let free = numbered().filter(|(_, view)| has_room(view));
                free.min_by_key(|(index, _)| after(*index))?.0
            }
            Policy::LowestDelay => {
                numbered().filter(|(_, view)| has_room(view)).min_by_key(|(_, v)| v.delay)?.0
            }
            Policy::Weighted => self
                .lowest_share(views, may)
                .filter(|path| views.get(*path).is_some_and(has_room))?,
        };
        self.last_path = path;
        if let Some(assigned) = self.assigned.get_mut(path) {
            *assigned += head as f64;
        }
        Some(Choice { path, skip: 0 })
    }

    /// Size of the largest packet that a path takes which may be used now; None: there is none.
    #[must_use]
    pub fn max_packet(views: &[View]) -> Option<u64> {
        let usable = best_state(views)?;
        let usable = views.iter().filter(|view| view.state == usable);
        usable.map(|view| view.max_packet).max().filter(|max| *max > 0)
    }

    /// Path for a duplicate of a packet given to the path `first`: the earliest other one whose
    /// window has room.
    #[must_use]
    pub fn duplicate_path(&self, views: &[View], bytes: u64, first: usize) -> Option<usize> {
        let usable = best_state(views)?;
        let mut order = Ranking::default();
        let order = order.set(views, bytes, |view| view.state == usable);
        let other = order.iter().find(|candidate| candidate.path != first && candidate.has_window);
        other.map(|candidate| candidate.path)
    }

    /// The path with the fewest bytes for its rate.
    fn lowest_share(&mut self, views: &[View], may: impl Fn(&View) -> bool) -> Option<usize> {
        if self.assigned.iter().sum::<f64>() > 1e6 {
            self.assigned.iter_mut().for_each(|assigned| *assigned *= 0.5);
        }
        let share = |index: usize, view: &View| {
            self.assigned.get(index).unwrap_or(&0.0) / view.rate.bytes_per_second().max(1.0)
        };
        let numbered = views.iter().enumerate().take(MAX_PATHS).filter(|(_, view)| may(view));
        let least = numbered.min_by(|(a, x), (b, y)| share(*a, x).total_cmp(&share(*b, y)));
        least.map(|(index, _)| index)
    }
}

/// Best state that any path is in and that may be used.
fn best_state(views: &[View]) -> Option<State> {
    let any = |state| views.iter().any(|view| view.state == state).then_some(state);
    any(State::Up).or_else(|| any(State::Standby)).or_else(|| any(State::Degraded))
}

/// Earliest delivery first over ranked paths.
fn earliest(order: &[Candidate], backlog: u64, retransmittable: bool) -> Option<Choice> {
    let first = order.first()?.arrival;
    let mut faster = Rate::ZERO;
    for (number, candidate) in order.iter().enumerate() {
        let Candidate { path, arrival, rate, has_window, retransmission_delay } = *candidate;
        let extra_delay = arrival.saturating_sub(first);
        let too_late = number > 0 && extra_delay > max_extra_delay(rate, faster);
        let lossy = number > 0 && retransmittable && !retransmission_delay.is_zero();
        if too_late
            || (lossy
                && extra_delay + retransmission_delay
                    > delay_budget(DELAY_PER_CAPACITY_LOSSY, rate, faster))
        {
            continue;
        }
        faster = faster + rate;
        if !has_window {
            continue;
        }
        let before = order.get(..number).unwrap_or_default();
        let carried =
            |earlier: &Candidate| earlier.rate.bytes(arrival.saturating_sub(earlier.arrival));
        let skip = before.iter().map(carried).sum();
        if skip < backlog {
            return Some(Choice { path, skip });
        }
    }
    None
}

/// Maximum extra delay of a path of this rate over the faster ones.
fn max_extra_delay(rate: Rate, faster: Rate) -> Duration {
    delay_budget(DELAY_PER_CAPACITY, rate, faster).min(MAX_EXTRA_DELAY)
}

/// Delay that the capacity added by a path is worth: `per_capacity` seconds if it doubles the rate.
fn delay_budget(per_capacity: f64, rate: Rate, faster: Rate) -> Duration {
    let share = rate.bytes_per_second() / faster.bytes_per_second().max(1.0);
    Duration::from_secs_f64(per_capacity * share.min(1.0))
}

/// Extra delay of a packet of `bytes` bytes on the slowest path in use over the fastest.
#[must_use]
pub(crate) fn spread(views: &[View], bytes: u64) -> Duration {
    let mut order = Ranking::default();
    let order = order.set(views, bytes, |view| view.state == State::Up);
    let first = order.first().map_or(Duration::ZERO, |candidate| candidate.arrival);
    let (mut faster, mut longest) = (Rate::ZERO, Duration::ZERO);
    for &Candidate { arrival, rate, .. } in order {
        let extra_delay = arrival.saturating_sub(first);
        if extra_delay <= max_extra_delay(rate, faster) || extra_delay.is_zero() {
            longest = longest.max(extra_delay);
            faster = faster + rate;
        }
    }
    longest
}

impl Scheduler {
    /// Extra delay of a packet of `bytes` bytes on the slowest path in use over the fastest. The
    /// backlog must hold packets for this long to keep all paths busy, and the resequencer waits
    /// for it.
    #[must_use]
    pub fn spread(&self, views: &[View], bytes: u64) -> Duration {
        match self.policy {
            Policy::EarliestDelivery => spread(views, bytes),
            _ => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(mbps: f64, delay_ms: u64, available_window: u64, queued: u64) -> View {
        View {
            state: State::Up,
            available_window,
            queued,
            rate: Rate::from_bytes_per_second(mbps * 125_000.0),
            delay: Duration::from_millis(delay_ms),
            max_packet: 1500,
            retransmission_delay: Duration::ZERO,
        }
    }

    #[test]
    fn the_path_of_earliest_arrival_takes_the_head() {
        let mut scheduler = Scheduler::default();
        let views = [view(1.0, 0, 9000, 0), view(33.0, 0, 9000, 0)];
        assert_eq!(scheduler.next(&views, 99_000, 1000, true), Some(Choice { path: 1, skip: 0 }));
        let queued = [view(1.0, 0, 9000, 0), view(33.0, 0, 9000, 90_000)];
        assert_eq!(scheduler.next(&queued, 99_000, 1000, true), Some(Choice { path: 0, skip: 0 }));
    }

    #[test]
    fn a_slow_path_takes_a_packet_that_arrives_in_order() {
        let mut scheduler = Scheduler::default();
        // 8 ms on the slow path, 0.5 ms on the other, which carries 30 kB in between
        let views = [view(1.0, 0, 9000, 0), view(32.0, 0, 0, 1000)];
        let choice = scheduler.next(&views, 99_000, 1000, true);
        assert_eq!(choice, Some(Choice { path: 0, skip: 30_000 }));
        assert_eq!(scheduler.next(&views, 30_000, 1000, true), None, "too little to send for it");
    }

    #[test]
    fn paths_with_too_much_extra_delay_are_not_used() {
        let mut scheduler = Scheduler::default();
        let far = [view(50.0, 10, 0, 0), view(50.0, 200, 9000, 0)];
        assert_eq!(scheduler.next(&far, 9_000_000, 1000, true), None);
        // a thousandth of the capacity is not worth 50 ms
        let weak = [view(1000.0, 10, 0, 0), view(1.0, 60, 9000, 0)];
        assert_eq!(scheduler.next(&weak, 99_000_000, 1000, true), None);
        assert_eq!(scheduler.spread(&weak, 1000), Duration::ZERO);
    }

    #[test]
    fn a_lossy_path_of_little_capacity_is_not_used() {
        let mut scheduler = Scheduler::default();
        let mut views = [view(300.0, 8, 0, 0), view(30.0, 40, 9000, 0)];
        let chosen = |scheduler: &mut Scheduler, views: &[View], retransmittable| {
            scheduler.next(views, 99_000_000, 1000, retransmittable).map(|choice| choice.path)
        };
        views[1].retransmission_delay = Duration::from_millis(10);
        assert_eq!(chosen(&mut scheduler, &views, true), Some(1));
        views[1].retransmission_delay = Duration::from_millis(80);
        assert_eq!(chosen(&mut scheduler, &views, true), None);
        assert_eq!(chosen(&mut scheduler, &views, false), Some(1), "nobody waits");
    }

    #[test]
    fn degraded_paths_are_used_if_none_is_up() {
        let mut scheduler = Scheduler::default();
        let mut views = [view(10.0, 0, 9000, 0), view(10.0, 5, 9000, 0)];
        views[0].state = State::Degraded;
        assert_eq!(scheduler.next(&views, 1000, 1000, true).unwrap().path, 1);
        views[1].state = State::Down;
        assert_eq!(scheduler.next(&views, 1000, 1000, true).unwrap().path, 0);
        views[0].state = State::Probing;
        assert_eq!(scheduler.next(&views, 1000, 1000, true), None);
        views[1].state = State::Standby;
        assert_eq!(scheduler.next(&views, 1000, 1000, true).unwrap().path, 1);
    }

    #[test]
    fn a_duplicate_takes_another_path() {
        let scheduler = Scheduler::default();
        let views = [view(10.0, 0, 9000, 0), view(10.0, 5, 0, 0), view(10.0, 9, 9000, 0)];
        assert_eq!(scheduler.duplicate_path(&views, 100, 0), Some(2));
        assert_eq!(scheduler.duplicate_path(&views, 100, 2), Some(0));
        assert_eq!(scheduler.duplicate_path(&views[..2], 100, 0), None);
    }

    #[test]
    fn a_packet_takes_a_path_with_sufficient_mtu() {
        let mut scheduler = Scheduler::default();
        let mut views = [view(10.0, 0, 9000, 0), view(10.0, 5, 9000, 0)];
        views[0].max_packet = 1200;
        assert_eq!(scheduler.next(&views, 1400, 1400, true).unwrap().path, 1);
        assert_eq!(scheduler.next(&views, 1200, 1200, true).unwrap().path, 0);
    }

    #[test]
    fn other_policies_choose_as_documented() {
        let views = [view(10.0, 9, 9000, 0), view(30.0, 5, 9000, 0), view(10.0, 1, 9000, 0)];
        let picks = |policy, count| {
            let mut scheduler = Scheduler::new(policy);
            (0..count)
                .map(|_| scheduler.next(&views, 9000, 1000, true).unwrap().path)
                .collect::<Vec<_>>()
        };
        assert_eq!(picks(Policy::RoundRobin, 4), [1, 2, 0, 1]);
        assert_eq!(picks(Policy::LowestDelay, 2), [2, 2]);
        assert_eq!(picks(Policy::Single, 2), [0, 0]);
        let weighted = picks(Policy::Weighted, 500);
        let count = |path| weighted.iter().filter(|pick| **pick == path).count();
        assert_eq!([count(0), count(1), count(2)], [100, 300, 100]);
    }

    #[test]
    fn the_spread_counts_only_paths_in_use() {
        let scheduler = Scheduler::default();
        let views = [view(32.0, 0, 0, 0), view(1.0, 0, 0, 0), view(0.001, 0, 0, 0)];
        let spread = scheduler.spread(&views, 1000);
        assert_eq!(spread, Duration::from_micros(7750));
    }
}
