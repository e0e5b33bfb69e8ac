//! Places flows on path groups (docs/design/flow-placement.md).

use std::time::{Duration, Instant};

use hawser_wire::{flow, label::wide};

use crate::{
    config::{self, Class, Otherwise, Placement},
    throughput::Throughput,
};

/// Flows remembered: 1 MiB.
const FLOWS_MAX: usize = 1 << 16;

/// Associativity: a hash maps to this many entries, of which the least recently used is replaced.
const WAYS: usize = 4;

/// Idle time, seconds, after which a flow is forgotten.
const IDLE_S: u32 = 60;

/// What placement and reconciliation need to know of a path group.
pub trait PathGroup {
    /// Its configuration.
    fn config(&self) -> &config::Group;

    /// Takes over a configuration of the same group: addresses of its paths, and thresholds.
    fn set_config(&mut self, config: &config::Group);

    /// Whether it carries packets.
    fn is_usable(&self, now: Instant) -> bool;

    /// Whether one of its member paths meets the thresholds of its class.
    fn complies(&self) -> bool {
        true
    }

    /// Bytes queued, to be compared with other groups of the peer.
    fn queued(&self) -> u64;

    /// Bytes sent to the peer since the group was opened.
    fn sent(&self) -> u64;
}

/// A remembered flow.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    /// Its hash; 0 if the entry is free.
    hash: u64,
    seen_s: u32,
    peer: u16,
    group: u8,
}

/// Flow table: which group each flow was placed on.
pub(crate) struct FlowPlacement {
    policy: Placement,
    start: Instant,
    table: Box<[[Flow; WAYS]]>,
    /// Flows per peer and group, by their numbers.
    counts: Box<[[u32; wide::GROUPS]]>,
    /// Next group of `round_robin`, per peer and class.
    turns: Box<[[usize; 2]]>,
    throughput: Throughput,
    /// Set at which the next sweep starts.
    swept: usize,
}

impl FlowPlacement {
    /// An empty table.
    pub(crate) fn new(policy: Placement, now: Instant) -> Self {
        Self {
            policy,
            start: now,
            table: vec![[Flow::default(); WAYS]; FLOWS_MAX / WAYS].into_boxed_slice(),
            counts: vec![[0; wide::GROUPS]; wide::BRANCHES].into_boxed_slice(),
            turns: vec![[0; 2]; wide::BRANCHES].into_boxed_slice(),
            throughput: Throughput::new(now),
            swept: 0,
        }
    }

    /// Changes the placement of new flows.
    pub(crate) fn set_policy(&mut self, policy: Placement) {
        self.policy = policy;
    }

    /// Flows on a group.
    pub(crate) fn flows(&self, peer: u16, group: u8) -> u32 {
        let of_peer = self.counts.get(usize::from(peer));
        of_peer.and_then(|counts| counts.get(usize::from(group))).copied().unwrap_or(0)
    }

    /// Index of the path group that carries a packet of a flow.
    ///
    /// A flow stays on its group while no other fits its class better.
    pub(crate) fn place<G: PathGroup>(
        &mut self,
        peer: u16,
        groups: &[G],
        hash: u64,
        class: Class,
        now: Instant,
    ) -> usize {
        if groups.len() < 2 {
            return 0;
        }
        // The same addresses and ports may send packets of both classes.
        let hash = flow::mix(hash, class as u64 + 1).max(1);
        let seen_s = self.seconds(now);
        if let Some(flow) = self.find(hash).filter(|flow| flow.peer == peer) {
            let id = flow.group;
            let place = groups.iter().position(|group| group.config().id == id);
            let fits =
                place.and_then(|index| groups.get(index)).map(|group| fit(group, class, now));
            let stays = fits.is_some_and(|fit| fit == Fit::Own || fit == best(groups, class, now));
            if let Some(index) = place.filter(|_| stays) {
                flow.seen_s = seen_s;
                return index;
            }
        }
        let index = self.choose(peer, groups, hash, class, now);
        let group = groups.get(index).map_or(0, |group| group.config().id);
        self.remember(Flow { hash, seen_s, peer, group });
        index
    }

    fn seconds(&self, now: Instant) -> u32 {
        u32::try_from(now.saturating_duration_since(self.start).as_secs()).unwrap_or(u32::MAX)
    }

    fn set(&mut self, hash: u64) -> &mut [Flow] {
        let sets = self.table.len() as u64;
        let index = usize::try_from(hash % sets.max(1)).unwrap_or(0);
        self.table.get_mut(index).map(<[Flow; WAYS]>::as_mut_slice).unwrap_or_default()
    }

    fn find(&mut self, hash: u64) -> Option<&mut Flow> {
        self.set(hash).iter_mut().find(|flow| flow.hash == hash)
    }

    fn remember(&mut self, flow: Flow) {
        let rank = |old: &Flow| (old.hash != flow.hash, old.hash != 0, old.seen_s);
        let Some(place) = self.set(flow.hash).iter_mut().min_by_key(|old| rank(old)) else {
            return;
        };
        let old = std::mem::replace(place, flow);
        self.forgotten(old);
        if let Some(count) = self.count(flow) {
            *count += 1;
        }
    }

    fn forgotten(&mut self, flow: Flow) {
        if flow.hash != 0
            && let Some(count) = self.count(flow)
        {
            *count = count.saturating_sub(1);
        }
    }

    fn count(&mut self, flow: Flow) -> Option<&mut u32> {
        self.counts.get_mut(usize::from(flow.peer))?.get_mut(usize::from(flow.group))
    }

    /// Whether it is time to [`Self::measure`] all groups; gives the time since the last one.
    pub(crate) fn measurement_due(&mut self, now: Instant) -> Option<Duration> {
        self.throughput.due(now)
    }

    /// Notes what the groups of a peer have sent, `passed` after it was noted last.
    pub(crate) fn measure<G: PathGroup>(&mut self, peer: u16, groups: &[G], passed: Duration) {
        for group in groups {
            self.throughput.note(peer, group.config().id, group.sent(), passed);
        }
    }

    /// Bytes a second that a group may give to one more flow; unknown is most.
    fn share(&self, peer: u16, group: u8) -> u64 {
        let flows = u64::from(self.flows(peer, group)) + 1;
        self.throughput.of(peer, group).unwrap_or(u64::MAX) / flows
    }

    /// Expires idle flows. Each call examines a part of the table, so that the whole is covered
    /// within [`IDLE_S`] when called every `period`.
    pub(crate) fn sweep(&mut self, now: Instant, period: Duration) {
        let rounds =
            (IDLE_S * 1000).div_ceil(u32::try_from(period.as_millis()).unwrap_or(1).max(1));
        let part = self.table.len().div_ceil(usize::try_from(rounds).unwrap_or(1).max(1));
        let now_s = self.seconds(now);
        for _ in 0..part {
            self.swept = (self.swept + 1) % self.table.len().max(1);
            for way in 0..WAYS {
                let place = self.table.get_mut(self.swept).and_then(|set| set.get_mut(way));
                if let Some(flow) = place
                    && flow.hash != 0
                    && now_s.saturating_sub(flow.seen_s) > IDLE_S
                {
                    let old = std::mem::take(flow);
                    self.forgotten(old);
                }
            }
        }
    }

    /// Group for a new flow.
    fn choose<G: PathGroup>(
        &mut self,
        peer: u16,
        groups: &[G],
        hash: u64,
        class: Class,
        now: Instant,
    ) -> usize {
        let best = best(groups, class, now);
        let fits = |group: &G| fit(group, class, now) == best;
        let fitting = || groups.iter().enumerate().filter(|(_, group)| fits(group));
        let turn =
            self.turns.get_mut(usize::from(peer)).and_then(|turns| turns.get_mut(class as usize));
        let chosen = match (self.policy, turn) {
            (Placement::RoundRobin, Some(turn)) => {
                let next =
                    fitting().find(|(index, _)| *index >= *turn).or_else(|| fitting().next());
                *turn = next.map_or(0, |(index, _)| index + 1);
                next
            }
            (Placement::LeastLoaded, _) => fitting()
                .min_by_key(|(_, group)| (group.queued(), self.flows(peer, group.config().id))),
            (Placement::Throughput, _) => {
                fitting().max_by_key(|(_, group)| self.share(peer, group.config().id))
            }
            // Highest random weight (rendezvous hashing, Thaler and Ravishankar 1998): few flows
            // move when groups are added or removed.
            _ => fitting().max_by_key(|(_, group)| weight(hash, group.config().id)),
        };
        chosen.map_or(0, |(index, _)| index)
    }
}

/// How well a group fits a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    /// It carries nothing.
    #[default]
    Unusable,
    /// It carries nothing, and is of this class.
    Awaited,
    /// It works, is of another class, and no path meets that class's thresholds.
    OtherLacking,
    /// It works, and is of this class, but no path meets its thresholds.
    OwnLacking,
    /// It works, and is of another class.
    Other,
    /// It does not work, but the class may use no other.
    Reserved,
    /// It works, and is of this class.
    Own,
}

fn fit<G: PathGroup>(group: &G, class: Class, now: Instant) -> Fit {
    let own = group.config().class == class;
    match (own, group.is_usable(now), group.complies()) {
        (true, true, true) => Fit::Own,
        (true, ..) if group.config().otherwise == Otherwise::Drop => Fit::Reserved,
        (true, true, false) => Fit::OwnLacking,
        (true, false, _) => Fit::Awaited,
        (false, true, true) => Fit::Other,
        (false, true, false) => Fit::OtherLacking,
        (false, false, _) => Fit::Unusable,
    }
}

/// The best fit that any group has.
fn best<G: PathGroup>(groups: &[G], class: Class, now: Instant) -> Fit {
    groups.iter().map(|group| fit(group, class, now)).max().unwrap_or_default()
}

/// Rendezvous weight. Group numbers are adjacent, so they are mixed twice: with once, weights
/// differed by up to 17 % (829 to 1148 of 4000 flows).
fn weight(hash: u64, group: u8) -> u64 {
    flow::mix(hash, flow::mix(u64::from(group) + 1, hash))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    struct Group {
        config: config::Group,
        up: bool,
        complies: bool,
        queued: u64,
        sent: u64,
    }

    impl PathGroup for Group {
        fn config(&self) -> &config::Group {
            &self.config
        }

        fn set_config(&mut self, config: &config::Group) {
            self.config = config.clone();
        }

        fn is_usable(&self, _: Instant) -> bool {
            self.up
        }

        fn complies(&self) -> bool {
            self.complies
        }

        fn queued(&self) -> u64 {
            self.queued
        }

        fn sent(&self) -> u64 {
            self.sent
        }
    }

    /// Path groups that are all usable.
    fn groups(classes: &[Class]) -> Vec<Group> {
        let config = |(id, class): (u8, &Class)| config::Group::new(id, *class, vec![]);
        let group = |config| Group { config, up: true, complies: true, queued: 0, sent: 0 };
        (0..).zip(classes).map(config).map(group).collect()
    }

    use Class::{I, II};

    const ALL: [Placement; 4] =
        [Placement::RoundRobin, Placement::FlowHash, Placement::LeastLoaded, Placement::Throughput];

    fn spread(placement: &FlowPlacement, groups: u8) -> Vec<u32> {
        (0..groups).map(|group| placement.flows(2, group)).collect()
    }

    #[test]
    fn round_robin_takes_one_after_the_other() {
        let (groups, now) = (groups(&[II; 4]), Instant::now());
        let mut placement = FlowPlacement::new(Placement::RoundRobin, now);
        let taken: Vec<_> = (0..8).map(|flow| placement.place(2, &groups, flow, II, now)).collect();
        assert_eq!(taken, [0, 1, 2, 3, 0, 1, 2, 3]);
        let again: Vec<_> = (0..8).map(|flow| placement.place(2, &groups, flow, II, now)).collect();
        assert_eq!(again, taken, "each stays");
    }

    #[test]
    fn flows_spread_evenly() {
        for policy in ALL {
            let (groups, now) = (groups(&[II; 4]), Instant::now());
            let mut placement = FlowPlacement::new(policy, now);
            for flow in 0..4000 {
                placement.place(2, &groups, flow::mix(flow, 7), II, now);
            }
            let spread = spread(&placement, 4);
            assert!(
                spread.iter().all(|flows| (850..1150).contains(flows)),
                "{policy:?} {spread:?}"
            );
        }
    }

    #[test]
    fn least_loaded_takes_the_shortest_queue() {
        let (mut groups, now) = (groups(&[II; 3]), Instant::now());
        let mut placement = FlowPlacement::new(Placement::LeastLoaded, now);
        groups[0].queued = 100;
        groups[1].queued = 100;
        for flow in 0..10 {
            assert_eq!(placement.place(2, &groups, flow, II, now), 2);
        }
    }

    #[test]
    fn throughput_takes_the_group_that_gives_most_to_each_flow() {
        let (mut groups, now) = (groups(&[II; 3]), Instant::now());
        let mut placement = FlowPlacement::new(Placement::Throughput, now);
        let place = |placement: &mut FlowPlacement, groups: &[Group], flow: u64| {
            placement.place(2, groups, flow, II, now)
        };
        let mut first: Vec<_> = (0..3).map(|flow| place(&mut placement, &groups, flow)).collect();
        first.sort_unstable();
        assert_eq!(first, [0, 1, 2], "each is tried");
        for (group, sent) in groups.iter_mut().zip([1_000_000, 4_000_000, 2_000_000]) {
            group.sent = sent;
        }
        placement.measure(2, &groups, Duration::from_secs(1));
        let next: Vec<_> = (3..10).map(|flow| place(&mut placement, &groups, flow)).collect();
        assert_eq!(next.iter().filter(|group| **group == 1).count(), 5, "{next:?}");
        assert_eq!(spread(&placement, 3), [1, 6, 3], "as many as it has to give");
    }

    #[test]
    fn a_failed_group_is_left_at_once_and_used_again() {
        for policy in ALL {
            let (mut groups, now) = (groups(&[II; 4]), Instant::now());
            let mut placement = FlowPlacement::new(policy, now);
            let mut all = |groups: &[Group], flows: std::ops::Range<u64>| -> Vec<_> {
                flows.map(|flow| placement.place(2, groups, flow, II, now)).collect()
            };
            let before = all(&groups, 0..400);
            groups[2].up = false;
            let during = all(&groups, 0..400);
            for (was, is) in before.iter().zip(&during) {
                assert!(if *was == 2 { *is != 2 } else { is == was }, "{policy:?}");
            }
            groups[2].up = true;
            assert_eq!(all(&groups, 0..400), during, "{policy:?}: flows that left stay away");
            assert!(all(&groups, 400..800).contains(&2), "{policy:?}: new ones come");
        }
    }

    #[test]
    fn classes_have_their_groups() {
        for policy in ALL {
            let (mut groups, now) = (groups(&[II, I, II]), Instant::now());
            let mut placement = FlowPlacement::new(policy, now);
            for flow in 0..100 {
                assert_eq!(placement.place(2, &groups, flow, I, now), 1);
                assert_ne!(placement.place(2, &groups, flow, II, now), 1);
            }
            groups[1].up = false;
            assert_ne!(placement.place(2, &groups, 5, I, now), 1, "any that carries");
            for group in &mut groups {
                group.up = false;
            }
            assert_eq!(placement.place(2, &groups, 500, I, now), 1, "waits for its own");
        }
        let (groups, now) = (self::groups(&[II, II]), Instant::now());
        let mut placement = FlowPlacement::new(Placement::RoundRobin, now);
        let taken: Vec<_> = (0..4).map(|flow| placement.place(2, &groups, flow, I, now)).collect();
        assert_eq!(taken, [0, 1, 0, 1], "without a group of class I, in any");
    }

    #[test]
    fn flows_leave_a_group_that_lacks_and_return_to_it() {
        for policy in ALL {
            let (mut groups, now) = (groups(&[II, I, II]), Instant::now());
            let mut placement = FlowPlacement::new(policy, now);
            let mut all = |groups: &[Group], class| -> Vec<_> {
                (0..50).map(|flow| placement.place(2, groups, flow, class, now)).collect()
            };
            assert_eq!(all(&groups, I), [1; 50]);
            groups[1].complies = false;
            let elsewhere = all(&groups, I);
            assert!(!elsewhere.contains(&1), "{policy:?}");
            assert_eq!(all(&groups, I), elsewhere, "{policy:?}: they stay there");
            groups[0].complies = false;
            groups[2].complies = false;
            assert_eq!(all(&groups, I), [1; 50], "{policy:?}: all lack, its own is as good");
            groups[0].complies = true;
            assert_eq!(all(&groups, I), [0; 50], "{policy:?}");
            groups[1].complies = true;
            assert_eq!(all(&groups, I), [1; 50], "{policy:?}: its own is good again");
        }
    }

    #[test]
    fn a_class_that_may_use_no_other_group_waits_for_its_own() {
        let (mut groups, now) = (groups(&[II, I, I]), Instant::now());
        let mut placement = FlowPlacement::new(Placement::FlowHash, now);
        groups[1].config.otherwise = Otherwise::Drop;
        groups[2].config.otherwise = Otherwise::Drop;
        groups[1].complies = false;
        let mut all = |groups: &[Group], class| -> Vec<_> {
            (0..50).map(|flow| placement.place(2, groups, flow, class, now)).collect()
        };
        assert_eq!(all(&groups, I), [2; 50]);
        groups[2].up = false;
        assert!(!all(&groups, I).contains(&0));
        groups[0].up = false;
        groups[2].up = true;
        assert_eq!(all(&groups, II), [2; 50], "the other class may use it");
    }

    #[test]
    fn flows_that_ended_are_forgotten() {
        let (groups, now) = (groups(&[II; 2]), Instant::now());
        let mut placement = FlowPlacement::new(Placement::FlowHash, now);
        for flow in 0..1000 {
            placement.place(2, &groups, flow, II, now);
        }
        assert_eq!(spread(&placement, 2).iter().sum::<u32>(), 1000);
        let (later, tick) = (now + Duration::from_secs(62), Duration::from_millis(50));
        (0..1200).for_each(|_| placement.sweep(later, tick));
        assert_eq!(spread(&placement, 2), [0, 0]);
    }

    proptest! {
        /// For any input, counts agree with the table, and the table is bounded.
        #[test]
        fn counts_agree_with_the_table(
            steps in proptest::collection::vec((any::<u64>(), 0..4_usize, any::<bool>()), 1..500),
        ) {
            let (mut groups, mut now) = (groups(&[II, I, II, II]), Instant::now());
            let mut placement = FlowPlacement::new(Placement::RoundRobin, now);
            placement.table = vec![[Flow::default(); WAYS]; 8].into_boxed_slice();
            for (hash, group, up) in steps {
                groups[group].up = up;
                now += Duration::from_millis(hash % 500);
                let class = if hash % 3 == 0 { I } else { II };
                let index = placement.place(2, &groups, hash % 64, class, now);
                let any_up = groups.iter().any(|group| group.up);
                prop_assert_eq!(groups[index].up, any_up);
                placement.sweep(now, Duration::from_millis(50));
            }
            let flows = placement.table.iter().flatten().filter(|flow| flow.hash != 0);
            let mut counted = [0; 4];
            flows.for_each(|flow| counted[usize::from(flow.group)] += 1);
            prop_assert_eq!(spread(&placement, 4), counted);
        }
    }
}
