//! Which packet goes next, and on which path.
//!
//! Earliest delivery first: a packet arrives on a path after what stands in the path's queue, itself and
//! the path's delay have passed. The packet that has waited longest goes where it arrives first. If there
//! is no room there yet, a slower path may take a packet from so far back that it arrives when its turn
//! has come: behind what the faster paths carry in the time that it takes longer. So packets arrive
//! nearly in order, and a path is used only when there is enough to send for it to be of use.

use std::time::Duration;

use crate::{
    path::{State, View},
    rate::Rate,
    sequencer::MAX_PATHS,
};

/// How much longer than on the fastest path a packet may take: the resequencer waits no longer.
const LONGEST_LEAD: Duration = Duration::from_millis(150);

/// Delay that a share of the whole rate is worth: a path that adds a tenth may lead by a tenth of it.
const WORTH: f64 = 2.0;

/// The same of the delay with what it takes until what is lost has gone again.
const WORTH_RESENT: f64 = 0.5;

/// What decides about the path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Where a packet arrives first.
    #[default]
    EarliestDelivery,
    /// The next path that has room.
    RoundRobin,
    /// The path of the lowest delay that has room.
    LowestDelay,
    /// Shares in proportion to the paths' rates.
    Weighted,
    /// The first path that is up, alone.
    Single,
}

/// A packet to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The path, by its index.
    pub path: usize,
    /// Which packet: the one behind so many bytes of the backlog.
    pub skip: u64,
}

/// Chooses.
#[derive(Clone, Debug, Default)]
pub struct Scheduler {
    policy: Policy,
    /// Path that had its turn last.
    turn: usize,
    /// Bytes given to each path, for [`Policy::Weighted`]; fades.
    given: [f64; MAX_PATHS],
    /// Of the last packet.
    order: Order,
}

/// Paths in the order in which a packet would arrive on them.
#[derive(Clone, Debug, Default)]
struct Order(Vec<Place>);

/// A path, when a packet would arrive on it, its rate, and whether it has room.
#[derive(Clone, Copy, Debug)]
struct Place {
    path: usize,
    arrival: Duration,
    rate: Rate,
    room: bool,
    resend: Duration,
}

impl Order {
    /// Of the paths that may be used for so many bytes.
    fn set(&mut self, views: &[View], bytes: u64, usable: impl Fn(&View) -> bool) -> &[Place] {
        self.0.clear();
        for (path, view) in views.iter().enumerate().take(MAX_PATHS) {
            if usable(view) && view.largest >= bytes {
                let (arrival, room) = (view.arrival(bytes), view.room >= bytes);
                let place = self.0.partition_point(|other| other.arrival <= arrival);
                let View { rate, resend, .. } = *view;
                self.0.insert(place, Place { path, arrival, rate, room, resend });
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

    /// What to send next of a backlog of so many bytes, whose first packet has `head` bytes, and goes again if it
    /// is lost where it is `kept`. None: wait.
    pub fn next(&mut self, views: &[View], backlog: u64, head: u64, kept: bool) -> Option<Choice> {
        let usable = usable(views)?;
        let may = |view: &View| view.state == usable && view.largest >= head;
        let has_room = |view: &View| may(view) && view.room >= head;
        let numbered = || views.iter().enumerate().take(MAX_PATHS);
        let path = match self.policy {
            Policy::EarliestDelivery => {
                return earliest(self.order.set(views, head, may), backlog, kept);
            }
            Policy::Single => {
                numbered().find(|(_, view)| may(view)).filter(|(_, view)| has_room(view))?.0
            }
            Policy::RoundRobin => {
                let after = |index: usize| (index + views.len() - self.turn - 1) % views.len();
                let free = numbered().filter(|(_, view)| has_room(view));
                free.min_by_key(|(index, _)| after(*index))?.0
            }
            Policy::LowestDelay => {
                numbered().filter(|(_, view)| has_room(view)).min_by_key(|(_, v)| v.delay)?.0
            }
            Policy::Weighted => self
                .least_given(views, may)
                .filter(|path| views.get(*path).is_some_and(has_room))?,
        };
        self.turn = path;
        if let Some(given) = self.given.get_mut(path) {
            *given += head as f64;
        }
        Some(Choice { path, skip: 0 })
    }

    /// The path for a copy of a packet, urgent or lost before, that was given to `first`: another one that has room, and of
    /// those the one on which it arrives first.
    #[must_use]
    pub fn copy(&self, views: &[View], bytes: u64, first: usize) -> Option<usize> {
        let usable = usable(views)?;
        let mut order = Order::default();
        let order = order.set(views, bytes, |view| view.state == usable);
        let other = order.iter().find(|place| place.path != first && place.room);
        other.map(|place| place.path)
    }

    /// The path that got least for its rate.
    fn least_given(&mut self, views: &[View], may: impl Fn(&View) -> bool) -> Option<usize> {
        if self.given.iter().sum::<f64>() > 1e6 {
            self.given.iter_mut().for_each(|given| *given *= 0.5);
        }
        let share = |index: usize, view: &View| {
            self.given.get(index).unwrap_or(&0.0) / view.rate.bytes_per_second().max(1.0)
        };
        let numbered = views.iter().enumerate().take(MAX_PATHS).filter(|(_, view)| may(view));
        let least = numbered.min_by(|(a, x), (b, y)| share(*a, x).total_cmp(&share(*b, y)));
        least.map(|(index, _)| index)
    }
}

/// The best state that a path is in and that packets may be sent in.
fn usable(views: &[View]) -> Option<State> {
    let any = |state| views.iter().any(|view| view.state == state).then_some(state);
    any(State::Up).or_else(|| any(State::Standby)).or_else(|| any(State::Degraded))
}

fn earliest(order: &[Place], backlog: u64, kept: bool) -> Option<Choice> {
    let first = order.first()?.arrival;
    let mut faster = Rate::ZERO;
    for (number, place) in order.iter().enumerate() {
        let Place { path, arrival, rate, room, resend } = *place;
        let lead = arrival.saturating_sub(first);
        let late = number > 0 && lead > longest_lead(rate, faster);
        let resent = number > 0 && kept && !resend.is_zero();
        if late || (resent && lead + resend > worth(WORTH_RESENT, rate, faster)) {
            continue;
        }
        faster = faster + rate;
        if !room {
            continue;
        }
        let before = order.get(..number).unwrap_or_default();
        let carried = |earlier: &Place| earlier.rate.bytes(arrival.saturating_sub(earlier.arrival));
        let skip = before.iter().map(carried).sum();
        if skip < backlog {
            return Some(Choice { path, skip });
        }
    }
    None
}

/// How much longer a packet may take on a path of this rate than on those that are faster.
fn longest_lead(rate: Rate, faster: Rate) -> Duration {
    worth(WORTH, rate, faster).min(LONGEST_LEAD)
}

/// What a path of this rate adds to those that are faster, as a delay: `whole` seconds for as much as all of them.
fn worth(whole: f64, rate: Rate, faster: Rate) -> Duration {
    let share = rate.bytes_per_second() / faster.bytes_per_second().max(1.0);
    Duration::from_secs_f64(whole * share.min(1.0))
}

/// How much longer a packet of so many bytes takes on the slowest path that is worth it than on the
/// fastest: what the backlog must hold for all paths to be busy, and the resequencer wait.
#[must_use]
pub(crate) fn spread(views: &[View], bytes: u64) -> Duration {
    let mut order = Order::default();
    let order = order.set(views, bytes, |view| view.state == State::Up);
    let first = order.first().map_or(Duration::ZERO, |place| place.arrival);
    let (mut faster, mut longest) = (Rate::ZERO, Duration::ZERO);
    for &Place { arrival, rate, .. } in order {
        let lead = arrival.saturating_sub(first);
        if lead <= longest_lead(rate, faster) || lead.is_zero() {
            longest = longest.max(lead);
            faster = faster + rate;
        }
    }
    longest
}

impl Scheduler {
    /// How much longer a packet of so many bytes takes on the slowest path that is worth it than on the
    /// fastest: for so long the backlog must hold packets for all paths to be busy, and the resequencer
    /// at the other end waits.
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

    fn view(mbps: f64, delay_ms: u64, room: u64, queued: u64) -> View {
        View {
            state: State::Up,
            room,
            queued,
            rate: Rate::from_bytes_per_second(mbps * 125_000.0),
            delay: Duration::from_millis(delay_ms),
            largest: 1500,
            resend: Duration::ZERO,
        }
    }

    #[test]
    fn the_fastest_with_room_takes_the_head() {
        let mut scheduler = Scheduler::default();
        let views = [view(1.0, 0, 9000, 0), view(33.0, 0, 9000, 0)];
        assert_eq!(scheduler.next(&views, 99_000, 1000, true), Some(Choice { path: 1, skip: 0 }));
        let queued = [view(1.0, 0, 9000, 0), view(33.0, 0, 9000, 90_000)];
        assert_eq!(scheduler.next(&queued, 99_000, 1000, true), Some(Choice { path: 0, skip: 0 }));
    }

    #[test]
    fn a_slow_path_takes_what_will_be_due_when_it_arrives() {
        let mut scheduler = Scheduler::default();
        // 8 ms on the slow one, 0.5 ms on the other, which carries 30 kB in the time between
        let views = [view(1.0, 0, 9000, 0), view(32.0, 0, 0, 1000)];
        let choice = scheduler.next(&views, 99_000, 1000, true);
        assert_eq!(choice, Some(Choice { path: 0, skip: 30_000 }));
        assert_eq!(scheduler.next(&views, 30_000, 1000, true), None, "too little to send for it");
    }

    #[test]
    fn what_comes_too_late_is_not_used() {
        let mut scheduler = Scheduler::default();
        let far = [view(50.0, 10, 0, 0), view(50.0, 200, 9000, 0)];
        assert_eq!(scheduler.next(&far, 9_000_000, 1000, true), None);
        // one in a thousand is not worth 50 ms
        let weak = [view(1000.0, 10, 0, 0), view(1.0, 60, 9000, 0)];
        assert_eq!(scheduler.next(&weak, 99_000_000, 1000, true), None);
        assert_eq!(scheduler.spread(&weak, 1000), Duration::ZERO);
    }

    #[test]
    fn a_thin_path_is_not_worth_waiting_for_what_it_loses() {
        let mut scheduler = Scheduler::default();
        let mut views = [view(300.0, 8, 0, 0), view(30.0, 40, 9000, 0)];
        let chosen = |scheduler: &mut Scheduler, views: &[View], kept| {
            scheduler.next(views, 99_000_000, 1000, kept).map(|choice| choice.path)
        };
        views[1].resend = Duration::from_millis(10);
        assert_eq!(chosen(&mut scheduler, &views, true), Some(1));
        views[1].resend = Duration::from_millis(80);
        assert_eq!(chosen(&mut scheduler, &views, true), None);
        assert_eq!(chosen(&mut scheduler, &views, false), Some(1), "nobody waits");
    }

    #[test]
    fn worse_states_are_used_where_nothing_better_is() {
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
    fn a_copy_takes_another_path() {
        let scheduler = Scheduler::default();
        let views = [view(10.0, 0, 9000, 0), view(10.0, 5, 0, 0), view(10.0, 9, 9000, 0)];
        assert_eq!(scheduler.copy(&views, 100, 0), Some(2));
        assert_eq!(scheduler.copy(&views, 100, 2), Some(0));
        assert_eq!(scheduler.copy(&views[..2], 100, 0), None);
    }

    #[test]
    fn a_packet_goes_where_it_fits() {
        let mut scheduler = Scheduler::default();
        let mut views = [view(10.0, 0, 9000, 0), view(10.0, 5, 9000, 0)];
        views[0].largest = 1200;
        assert_eq!(scheduler.next(&views, 1400, 1400, true).unwrap().path, 1);
        assert_eq!(scheduler.next(&views, 1200, 1200, true).unwrap().path, 0);
    }

    #[test]
    fn the_other_policies_do_what_they_say() {
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
    fn the_spread_is_that_of_paths_that_are_worth_it() {
        let scheduler = Scheduler::default();
        let views = [view(32.0, 0, 0, 0), view(1.0, 0, 0, 0), view(0.001, 0, 0, 0)];
        let spread = scheduler.spread(&views, 1000);
        assert_eq!(spread, Duration::from_micros(7750));
    }
}
