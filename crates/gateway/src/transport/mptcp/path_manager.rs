//! Path manager (RFC 8684): which member paths should have a subflow. Pure; fed with what the
//! kernel reports (docs/design/mptcp.md, Subflows).
//!
//! A subflow on which nothing arrives, because its path is cut or starved, blocks the whole
//! connection: its data is missing at the receiver until the kernel gives up. Closing it sends that
//! data on the others at once. It is joined again after a pause, once a probe has been answered.

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use hawser_netdev::mptcp::{Ends, Subflow};
use hawser_tunnel::config::Path;

mod loss;

use loss::Loss;

/// A subflow with data in flight is stuck if nothing arrives for this long and one RTT.
const STUCK_AFTER: Duration = Duration::from_millis(250);

/// A connection is stalled if nothing arrives on any subflow for this long and one RTT. It is
/// avoided before subflows are closed, so that inner retransmissions already take another.
const STALLED_AFTER: Duration = Duration::from_millis(150);

/// A path on which nothing arrives for this long may have to be sought elsewhere.
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);

/// Maximum RTT that counts for these, or two RTTs of the idle path: the RTT of a starved path grows
/// without bound.
const MAX_STUCK_RTT: Duration = Duration::from_millis(400);

/// Factor on [`STUCK_AFTER`] while silence has another explanation: data arrives in the other
/// direction, so acknowledgements may only be late; or a path that carries its share has lossy
/// phases, in which retransmissions are lost too. Closing a subflow sends everything twice.
const DOUBTFUL_FACTOR: u32 = 3;

/// Maximum time that counts between two polls: if this process had to wait, so did the kernel.
const MAX_POLL_GAP: Duration = Duration::from_millis(100);

/// A subflow is slow if its RTT is this many times the fastest, ...
const SLOW_RTT_FACTOR: u32 = 4;

/// ... this much of it is queueing delay, ...
const SLOW_QUEUEING: Duration = Duration::from_millis(150);

/// ... and it carries less than this fraction (1/n) of a fair share, in both directions together:
/// the RTT does not tell in which of them packets queue.
const MIN_SHARE: u64 = 4;

/// Interval over which shares are measured.
const SHARE_WINDOW: Duration = Duration::from_millis(500);

/// Fraction (1/n) of a subflow's best share that decays per interval. Slowly, since a blocked
/// connection carries nothing on its other subflows either.
const DECAY: u32 = 8;

/// Time within which a join must complete; until then the kernel retries, every second at first.
/// Not sooner: closing a subflow, even one never established, makes the kernel send all data in
/// flight on the others a second time, about 0.5 MB where they are busy.
const JOIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Time within which a probe must be answered: above any path's RTT, below the queueing delay of a
/// starved path.
const PROBE_TIMEOUT: Duration = Duration::from_millis(700);

/// Minimum and maximum pause after a probe or a join that failed.
const PROBE_BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// Minimum and maximum pause after an established subflow was closed.
const CLOSE_BACKOFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// Lifetime of a subflow after which its pause starts at the minimum again.
const MIN_LIFETIME: Duration = Duration::from_secs(10);

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Probe the member path with this index.
    Probe(usize),
    /// Open a subflow on the member path with this index.
    Join(usize),
    /// Close a subflow.
    Close(Ends),
}

/// Member paths of one connection.
#[derive(Debug)]
pub(crate) struct PathManager {
    members: Vec<Member>,
    last_poll: Instant,
    window: Instant,
    /// Segments per interval if each subflow carried the same part of the sum of all best shares.
    fair_share: u64,
    stalled: bool,
    busy: bool,
    present: u32,
    /// Addresses that member paths had before, whose subflows are closed once there is another.
    left: Vec<(IpAddr, IpAddr)>,
}

/// A member path.
#[derive(Debug)]
struct Member {
    /// Its addresses, if both are known.
    ends: Option<(IpAddr, IpAddr)>,
    /// Whether it stands for a subflow that the peer opened from an address of which the
    /// configuration does not know, such as that of a NAT.
    learned: bool,
    state: State,
    /// Consecutive failed probes and joins.
    refused: u32,
    /// Consecutive established subflows that had to be closed.
    closed: u32,
    loss: Loss,
}

/// State of a member path.
#[derive(Clone, Copy, Debug)]
enum State {
    /// No subflow; none is opened before this time.
    Absent(Instant),
    /// No subflow; a probe is in flight.
    Probing(Instant),
    /// A subflow is being opened or closed.
    Pending(Instant),
    Established(Established),
}

/// An established subflow.
#[derive(Clone, Copy, Debug)]
struct Established {
    since: Instant,
    /// Segments delivered to the peer, received, and lost so far; all wrap around.
    delivered: u32,
    received: u32,
    lost: u32,
    /// Time in which nothing was delivered although data was in flight.
    silence: Duration,
    /// Segments in both directions at the start of the interval.
    window: u32,
    /// Segments in the previous interval, once it was complete.
    carried: Option<u32>,
    /// Best recent value of `carried`.
    best: u32,
}

impl PathManager {
    /// For a connection on these member paths that has just come up.
    pub(crate) fn new(paths: &[Path], now: Instant) -> Self {
        let member = |path: &Path| Member::new(path.ends(), now);
        Self {
            members: paths.iter().map(member).collect(),
            left: Vec::new(),
            last_poll: now,
            window: now,
            fair_share: 0,
            stalled: false,
            busy: true,
            present: 0,
        }
    }

    /// Takes over the addresses that the member paths have now. A path that has moved is joined at
    /// once.
    pub(crate) fn set_paths(&mut self, paths: &[Path], now: Instant) {
        for (member, path) in self.members.iter_mut().zip(paths) {
            if member.ends != path.ends() {
                self.left.extend(member.ends);
                *member = Member::new(path.ends(), now);
                self.busy = true;
            }
        }
        let members = &self.members;
        self.left.retain(|ends| members.iter().all(|member| member.ends != Some(*ends)));
    }

    /// Whether the member path with this index has a subflow on which something arrives.
    pub(crate) fn is_answering(&self, place: usize) -> bool {
        self.members.get(place).is_some_and(|member| match member.state {
            State::Established(established) => established.silence < ANSWERS_WITHIN,
            _ => false,
        })
    }

    /// Whether nothing gets through on any path.
    pub(crate) fn stalled(&self) -> bool {
        self.stalled
    }

    /// Established subflows.
    pub(crate) fn present(&self) -> u32 {
        self.present
    }

    /// Whether to poll: data is in flight, a state is pending, or something was sent since the last
    /// poll; otherwise every `idle_interval`.
    pub(crate) fn is_due(&self, now: Instant, last_sent: Instant, idle_interval: Duration) -> bool {
        let elapsed = now.saturating_duration_since(self.last_poll);
        self.busy || last_sent > self.last_poll || elapsed >= idle_interval
    }

    /// Makes the next poll due.
    pub(crate) fn poll_soon(&mut self) {
        self.busy = true;
    }

    /// Examines all subflows of the connection and returns what to do. The side that does not
    /// `connect` only closes.
    pub(crate) fn poll(
        &mut self,
        now: Instant,
        subflows: &[Subflow],
        connects: bool,
    ) -> Vec<Action> {
        let elapsed = now.saturating_duration_since(self.last_poll).min(MAX_POLL_GAP);
        self.last_poll = now;
        let window_ends = now.saturating_duration_since(self.window) >= SHARE_WINDOW;
        if window_ends {
            self.window = now;
        }
        let (mut found, others) = self.assign(subflows);
        let is_left = |subflow: &Subflow| self.left.contains(&addresses(subflow));
        let (left, others): (Vec<_>, Vec<_>) = others.into_iter().partition(is_left);
        if !connects {
            for subflow in others {
                let ends = Some(addresses(&subflow));
                self.members.push(Member { learned: true, ..Member::new(ends, now) });
                found.push(Some(subflow));
            }
        }
        let mut actions = Vec::new();
        for (place, (member, subflow)) in self.members.iter_mut().zip(&found).enumerate() {
            match subflow {
                Some(subflow) if subflow.established => {
                    member.on_established(now, subflow, elapsed, window_ends, self.fair_share);
                }
                Some(subflow) => actions.extend(member.on_pending(now, subflow)),
                None => {
                    actions
                        .extend(member.on_missing(now, connects).then_some(Action::Probe(place)));
                }
            }
        }
        self.close_blocking(now, &found, &mut actions);
        self.close_left(&left, &mut actions);
        let gone = |member: &Member| member.learned && matches!(member.state, State::Absent(_));
        self.members.retain(|member| !gone(member));
        actions
    }

    /// Closes subflows of addresses that paths no longer have, once there is another one.
    fn close_left(&mut self, left: &[Subflow], actions: &mut Vec<Action>) {
        if self.present == 0 {
            return;
        }
        let ends = left.iter().map(|Subflow { local, remote, .. }| (*local, *remote));
        actions.extend(ends.map(|(local, remote)| Action::Close(Ends { local, remote })));
        // Subflows that are not there any more were closed by the kernel.
        self.left.clear();
    }

    /// A probe was answered or refused; returns what to do.
    pub(crate) fn answered(&mut self, now: Instant, place: usize, reached: bool) -> Option<Action> {
        let member = self.members.get_mut(place)?;
        if !matches!(member.state, State::Probing(_)) {
            return None;
        }
        if reached {
            member.state = State::Pending(now);
            return Some(Action::Join(place));
        }
        member.on_refused(now);
        None
    }

    /// Subflow of each member path, and those of none. A path may have several.
    fn assign(&self, subflows: &[Subflow]) -> (Vec<Option<Subflow>>, Vec<Subflow>) {
        let mut rest: Vec<_> = subflows.to_vec();
        rest.sort_by_key(|subflow| !subflow.established);
        let mut take = |member: &Member| {
            let at = rest.iter().position(|subflow| member.is_of(subflow))?;
            Some(rest.remove(at))
        };
        let found = self.members.iter().map(&mut take).collect();
        (found, rest)
    }

    /// Closes subflows that block the others; at least one stays.
    fn close_blocking(
        &mut self,
        now: Instant,
        found: &[Option<Subflow>],
        actions: &mut Vec<Action>,
    ) {
        let established_subflows = || {
            let both = self.members.iter().zip(found).enumerate();
            both.filter_map(|(place, (member, subflow))| match member.state {
                State::Established(established) => {
                    subflow.map(|subflow| (place, established, subflow))
                }
                _ => None,
            })
        };
        let known = self.members.iter().filter(|member| member.ends.is_some()).count();
        self.busy = known > established_subflows().count()
            || established_subflows().any(|(_, _, subflow)| subflow.unacked > 0);
        self.present = u32::try_from(established_subflows().count()).unwrap_or(u32::MAX);
        self.stalled = established_subflows()
            .all(|(_, established, subflow)| established.is_silent(&subflow, STALLED_AFTER));
        // The one that stays if none is good: the one with the shortest silence.
        let best = established_subflows()
            .min_by_key(|(_, established, subflow)| (established.silence, subflow.rtt));
        let Some((best, _, fastest)) = best else { return };
        let total: u64 =
            established_subflows().map(|(_, established, _)| u64::from(established.best)).sum();
        let fair_share = total / u64::from(self.present.max(1));
        let is_blocking = |established: &Established, subflow: &Subflow| {
            established.is_silent(subflow, STUCK_AFTER)
                || established.is_slow(subflow, fastest.rtt, fair_share)
        };
        let bad: Vec<_> = established_subflows()
            .filter(|(place, established, subflow)| {
                *place != best && is_blocking(established, subflow)
            })
            .map(|(place, _, Subflow { local, remote, .. })| (place, Ends { local, remote }))
            .collect();
        self.fair_share = fair_share;
        for (place, ends) in bad {
            actions.push(Action::Close(ends));
            if let Some(member) = self.members.get_mut(place) {
                member.on_closed(now);
            }
        }
    }
}

/// Local and remote address of a subflow.
fn addresses(subflow: &Subflow) -> (IpAddr, IpAddr) {
    (subflow.local.ip(), subflow.remote.ip())
}

impl Member {
    fn new(ends: Option<(IpAddr, IpAddr)>, now: Instant) -> Self {
        let (state, loss) = (State::Absent(now), Loss::default());
        Self { ends, learned: false, state, refused: 0, closed: 0, loss }
    }

    fn is_of(&self, subflow: &Subflow) -> bool {
        self.ends == Some(addresses(subflow))
    }

    /// Its subflow is established; `fair_share` is in segments per interval.
    fn on_established(
        &mut self,
        now: Instant,
        subflow: &Subflow,
        elapsed: Duration,
        window_ends: bool,
        fair_share: u64,
    ) {
        self.refused = 0;
        let Subflow { delivered, received, lost, unacked, .. } = *subflow;
        let moved = delivered.wrapping_add(received);
        let State::Established(established) = &mut self.state else {
            self.state = State::Established(Established {
                since: now,
                delivered,
                received,
                lost,
                silence: Duration::ZERO,
                window: moved,
                carried: None,
                best: 0,
            });
            return;
        };
        if unacked == 0 || delivered != established.delivered {
            established.silence = Duration::ZERO;
            self.loss +=
                Loss::between((established.delivered, established.lost), (delivered, lost));
            established.lost = lost;
        } else if received != established.received
            || self.loss.is_lossy() && is_share(established.best, fair_share)
        {
            established.silence += elapsed / DOUBTFUL_FACTOR;
        } else {
            established.silence += elapsed;
        }
        (established.delivered, established.received) = (delivered, received);
        if window_ends {
            self.loss.fade();
            let whole = now.saturating_duration_since(established.since) >= SHARE_WINDOW;
            established.carried = whole.then(|| moved.wrapping_sub(established.window));
            let decayed = established.best - established.best.div_ceil(DECAY);
            established.best = decayed.max(established.carried.unwrap_or(0));
            established.window = moved;
        }
    }

    /// Its subflow is being opened or closed, within a time limit.
    fn on_pending(&mut self, now: Instant, subflow: &Subflow) -> Option<Action> {
        match self.state {
            State::Pending(since) if now.saturating_duration_since(since) < JOIN_TIMEOUT => None,
            State::Pending(_) => {
                self.on_refused(now);
                Some(Action::Close(Ends { local: subflow.local, remote: subflow.remote }))
            }
            // Closed just now, and still reported.
            State::Absent(until) if now < until => None,
            _ => {
                self.state = State::Pending(now);
                None
            }
        }
    }

    /// It has no subflow; returns whether to probe the path.
    fn on_missing(&mut self, now: Instant, connects: bool) -> bool {
        match self.state {
            State::Absent(until) if now >= until && connects && self.ends.is_some() => {
                self.state = State::Probing(now);
                return true;
            }
            State::Probing(since) if now.saturating_duration_since(since) >= PROBE_TIMEOUT => {
                self.on_refused(now);
            }
            State::Absent(_) | State::Probing(_) => {}
            State::Pending(_) => self.on_refused(now),
            State::Established(_) => self.on_closed(now),
        }
        false
    }

    fn on_refused(&mut self, now: Instant) {
        self.state = State::Absent(now + backoff(PROBE_BACKOFF, self.refused));
        self.refused = self.refused.saturating_add(1);
    }

    /// Its established subflow has ended or is to be closed.
    fn on_closed(&mut self, now: Instant) {
        if let State::Established(established) = self.state
            && now.saturating_duration_since(established.since) >= MIN_LIFETIME
        {
            self.closed = 0;
        }
        self.state = State::Absent(now + backoff(CLOSE_BACKOFF, self.closed));
        self.closed = self.closed.saturating_add(1);
    }
}

impl Established {
    /// Whether nothing was delivered for this time and one RTT.
    fn is_silent(&self, subflow: &Subflow, time: Duration) -> bool {
        self.silence > time + subflow.rtt.min(MAX_STUCK_RTT).max(2 * subflow.min_rtt)
    }

    /// Whether its data arrives much later than that of others, and is little compared with its
    /// fair share.
    fn is_slow(&self, subflow: &Subflow, fastest: Duration, fair_share: u64) -> bool {
        let Subflow { rtt, min_rtt, unacked, .. } = *subflow;
        unacked > 0
            && rtt > SLOW_RTT_FACTOR * fastest
            && rtt.saturating_sub(min_rtt) > SLOW_QUEUEING
            && self.carried.is_some_and(|carried| !is_share(carried, fair_share))
    }
}

/// Whether this many segments per interval are a fair part of the total.
fn is_share(carried: u32, fair_share: u64) -> bool {
    u64::from(carried) * MIN_SHARE > fair_share
}

fn backoff((first, longest): (Duration, Duration), times: u32) -> Duration {
    first.saturating_mul(1 << times.min(16)).min(longest)
}

#[cfg(test)]
mod tests;
