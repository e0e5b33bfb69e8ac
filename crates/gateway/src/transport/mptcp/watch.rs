//! Which member paths of a group have a subflow, and which should: pure, fed with what the kernel tells.
//!
//! A subflow on which nothing arrives, because its path is cut or others go first there, holds up the whole
//! connection: what was sent on it is missing at the other end until the kernel gives up waiting. So it is
//! closed, which sends its data on the other paths at once, and joined again after a pause, once a probe
//! has come through. docs/design/mptcp.md has the measurement.

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use hawser_netdev::mptcp::{Ends, Subflow};
use hawser_tunnel::config::Path;

mod loss;

use loss::Loss;

/// A subflow with data under way on which nothing arrives for this long and a round trip is stuck.
const STUCK: Duration = Duration::from_millis(250);

/// A connection all of whose subflows are silent for this long and a round trip is avoided: sooner than
/// they are closed, so that what inner connections send a second time already goes elsewhere.
const STALLED: Duration = Duration::from_millis(150);

/// Of the round trip no more counts than this, or two of the idle path: on a path that starves it grows
/// without bound.
const STUCK_WAITING: Duration = Duration::from_millis(400);

/// Time counts for so much less where silence need not mean that nothing gets through: something comes the
/// other way, and acknowledgements may only be late; or a path that carries its share loses packets all the
/// time, and now and then what was sent again too. To close a subflow sends everything twice.
const STUCK_DOUBTFUL: u32 = 3;

/// What counts at most as time between two looks: where this process had to wait, so had the kernel.
const STEP: Duration = Duration::from_millis(100);

/// A subflow is slow if its round trip is so many times that of the fastest, ...
const SLOW_TIMES: u32 = 4;

/// ... and so much of it is waiting, ...
const SLOW_WAITING: Duration = Duration::from_millis(150);

/// ... and it carries less than this part of an equal share, in both directions: a round trip cannot tell
/// in which of them packets wait.
const SLOW_SHARE: u64 = 4;

/// Time over which shares are measured.
const WINDOW: Duration = Duration::from_millis(500);

/// The part of what a subflow carried at its best that is forgotten in each window: slowly, because where
/// one holds up the connection the others carry nothing either.
const FORGOTTEN: u32 = 8;

/// A subflow must be there this long after it was begun. Until then the kernel asks again, every second at
/// first. Not sooner: whenever a subflow is closed, be it one that never stood, the kernel sends all that
/// is under way on the others a second time, some 0.5 MB where they are busy.
const JOINING: Duration = Duration::from_secs(10);

/// A probe of a path is answered in this time, or the path carries nothing for now: above any path's round
/// trip, below what packets wait that others keep behind.
const PROBING: Duration = Duration::from_millis(700);

/// First and longest pause after a probe or a subflow that was not answered or was refused.
const REFUSED: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// First and longest pause after a subflow that was there and was closed.
const CLOSED: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// A subflow that lived this long begins anew with the shortest pause.
const SETTLED: Duration = Duration::from_secs(10);

/// Something to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// See whether the member path at this place carries anything.
    Probe(usize),
    /// Begin a subflow on the member path at this place.
    Join(usize),
    /// Close a subflow.
    Close(Ends),
}

/// The member paths of one connection.
#[derive(Debug)]
pub(crate) struct Watch {
    members: Vec<Member>,
    looked: Instant,
    window: Instant,
    /// What each subflow would carry of what all lately carried at their best.
    equal: u64,
    stalled: bool,
    busy: bool,
    present: u32,
}

#[derive(Debug)]
struct Member {
    local: IpAddr,
    remote: IpAddr,
    state: State,
    /// Probes and subflows in a row that were not answered.
    refused: u32,
    /// Subflows in a row that were there and had to be closed.
    closed: u32,
    loss: Loss,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// There is no subflow, and none is to be begun before.
    Absent(Instant),
    /// There is no subflow; a probe is under way.
    Probing(Instant),
    /// A subflow is being made, or is ending.
    Changing(Instant),
    Present(Presence),
}

/// What is known of a subflow that stands.
#[derive(Clone, Copy, Debug)]
struct Presence {
    since: Instant,
    /// Segments that have arrived at the other end, and here, and that were lost until then; all wrap.
    delivered: u32,
    received: u32,
    lost: u32,
    /// Time in which nothing arrived at the other end though something was under way.
    silent: Duration,
    /// Segments that had arrived at either end when the window began.
    window: u32,
    /// Those of the window before, once there was a whole one.
    carried: Option<u32>,
    /// As many it lately carried at its best.
    best: u32,
}

impl Watch {
    /// Of a connection on these member paths, which has just come up.
    pub(crate) fn new(paths: &[Path], now: Instant) -> Self {
        let member = |path: &Path| Member {
            local: path.local,
            remote: path.remote,
            state: State::Absent(now),
            refused: 0,
            closed: 0,
            loss: Loss::default(),
        };
        Self {
            members: paths.iter().map(member).collect(),
            looked: now,
            window: now,
            equal: 0,
            stalled: false,
            busy: true,
            present: 0,
        }
    }

    /// Whether nothing arrives on any path.
    pub(crate) fn stalled(&self) -> bool {
        self.stalled
    }

    /// Subflows that stand.
    pub(crate) fn present(&self) -> u32 {
        self.present
    }

    /// Whether it is time to look: something is under way, changing, or was sent since the last look; else
    /// at leisure.
    pub(crate) fn is_due(&self, now: Instant, said: Instant, leisure: Duration) -> bool {
        let elapsed = now.saturating_duration_since(self.looked);
        self.busy || said > self.looked || elapsed >= leisure
    }

    /// Makes the next look be soon.
    pub(crate) fn hurry(&mut self) {
        self.busy = true;
    }

    /// Looks at all subflows of the connection and says what is to be done. Who does not `connect` closes
    /// only.
    pub(crate) fn look(&mut self, now: Instant, subflows: &[Subflow], connects: bool) -> Vec<Step> {
        let elapsed = now.saturating_duration_since(self.looked).min(STEP);
        self.looked = now;
        let turn = now.saturating_duration_since(self.window) >= WINDOW;
        if turn {
            self.window = now;
        }
        let found = self.assign(subflows);
        let mut steps = Vec::new();
        for (place, (member, subflow)) in self.members.iter_mut().zip(&found).enumerate() {
            match subflow {
                Some(subflow) if subflow.established => {
                    member.stands(now, subflow, elapsed, turn, self.equal);
                }
                Some(subflow) => steps.extend(member.changes(now, subflow)),
                None => steps.extend(member.lacks(now, connects).then_some(Step::Probe(place))),
            }
        }
        self.judge(now, &found, &mut steps);
        steps
    }

    /// A probe of the member path at this place has come through or was refused; says what is to be done.
    pub(crate) fn answered(&mut self, now: Instant, place: usize, reached: bool) -> Option<Step> {
        let member = self.members.get_mut(place)?;
        if !matches!(member.state, State::Probing(_)) {
            return None;
        }
        if reached {
            member.state = State::Changing(now);
            return Some(Step::Join(place));
        }
        member.was_refused(now);
        None
    }

    /// The subflow of each member path. The same path may be there several times.
    fn assign(&self, subflows: &[Subflow]) -> Vec<Option<Subflow>> {
        let mut rest: Vec<_> = subflows.to_vec();
        rest.sort_by_key(|subflow| !subflow.established);
        let mut take = |member: &Member| {
            let at = rest.iter().position(|subflow| member.is_of(subflow))?;
            Some(rest.remove(at))
        };
        self.members.iter().map(&mut take).collect()
    }

    /// Closes those that hold up the others, and one at least stays.
    fn judge(&mut self, now: Instant, found: &[Option<Subflow>], steps: &mut Vec<Step>) {
        let standing = || {
            let both = self.members.iter().zip(found).enumerate();
            both.filter_map(|(place, (member, subflow))| match member.state {
                State::Present(presence) => subflow.map(|subflow| (place, presence, subflow)),
                _ => None,
            })
        };
        self.busy = self.members.len() > standing().count()
            || standing().any(|(_, _, subflow)| subflow.unacked > 0);
        self.present = u32::try_from(standing().count()).unwrap_or(u32::MAX);
        self.stalled =
            standing().all(|(_, presence, subflow)| presence.is_silent(&subflow, STALLED));
        // The one that stays if none is good: of which was heard last.
        let best = standing().min_by_key(|(_, presence, subflow)| (presence.silent, subflow.rtt));
        let Some((best, _, fastest)) = best else { return };
        let total: u64 = standing().map(|(_, presence, _)| u64::from(presence.best)).sum();
        let equal = total / u64::from(self.present.max(1));
        let held_up = |presence: &Presence, subflow: &Subflow| {
            presence.is_silent(subflow, STUCK) || presence.is_slow(subflow, fastest.rtt, equal)
        };
        let bad: Vec<_> = standing()
            .filter(|(place, presence, subflow)| *place != best && held_up(presence, subflow))
            .map(|(place, _, Subflow { local, remote, .. })| (place, Ends { local, remote }))
            .collect();
        self.equal = equal;
        for (place, ends) in bad {
            steps.push(Step::Close(ends));
            if let Some(member) = self.members.get_mut(place) {
                member.ended(now);
            }
        }
    }
}

impl Member {
    fn is_of(&self, subflow: &Subflow) -> bool {
        (self.local, self.remote) == (subflow.local.ip(), subflow.remote.ip())
    }

    /// Its subflow stands; `equal` segments in a window would be its share.
    fn stands(
        &mut self,
        now: Instant,
        subflow: &Subflow,
        elapsed: Duration,
        turn: bool,
        equal: u64,
    ) {
        self.refused = 0;
        let Subflow { delivered, received, lost, unacked, .. } = *subflow;
        let moved = delivered.wrapping_add(received);
        let State::Present(presence) = &mut self.state else {
            self.state = State::Present(Presence {
                since: now,
                delivered,
                received,
                lost,
                silent: Duration::ZERO,
                window: moved,
                carried: None,
                best: 0,
            });
            return;
        };
        if unacked == 0 || delivered != presence.delivered {
            presence.silent = Duration::ZERO;
            self.loss += Loss::between((presence.delivered, presence.lost), (delivered, lost));
            presence.lost = lost;
        } else if received != presence.received
            || self.loss.is_usual() && is_share(presence.best, equal)
        {
            presence.silent += elapsed / STUCK_DOUBTFUL;
        } else {
            presence.silent += elapsed;
        }
        (presence.delivered, presence.received) = (delivered, received);
        if turn {
            self.loss.fade();
            let whole = now.saturating_duration_since(presence.since) >= WINDOW;
            presence.carried = whole.then(|| moved.wrapping_sub(presence.window));
            let kept = presence.best - presence.best.div_ceil(FORGOTTEN);
            presence.best = kept.max(presence.carried.unwrap_or(0));
            presence.window = moved;
        }
    }

    /// Its subflow is being made, or is ending; not for ever.
    fn changes(&mut self, now: Instant, subflow: &Subflow) -> Option<Step> {
        match self.state {
            State::Changing(since) if now.saturating_duration_since(since) < JOINING => None,
            State::Changing(_) => {
                self.was_refused(now);
                Some(Step::Close(Ends { local: subflow.local, remote: subflow.remote }))
            }
            // What was just closed by us, and is still seen.
            State::Absent(until) if now < until => None,
            _ => {
                self.state = State::Changing(now);
                None
            }
        }
    }

    /// It has no subflow; says whether to try the path.
    fn lacks(&mut self, now: Instant, connects: bool) -> bool {
        match self.state {
            State::Absent(until) if now >= until && connects => {
                self.state = State::Probing(now);
                return true;
            }
            State::Probing(since) if now.saturating_duration_since(since) >= PROBING => {
                self.was_refused(now);
            }
            State::Absent(_) | State::Probing(_) => {}
            State::Changing(_) => self.was_refused(now),
            State::Present(_) => self.ended(now),
        }
        false
    }

    fn was_refused(&mut self, now: Instant) {
        self.state = State::Absent(now + pause(REFUSED, self.refused));
        self.refused = self.refused.saturating_add(1);
    }

    /// Its subflow, which stood, has ended or is to be closed.
    fn ended(&mut self, now: Instant) {
        if let State::Present(presence) = self.state
            && now.saturating_duration_since(presence.since) >= SETTLED
        {
            self.closed = 0;
        }
        self.state = State::Absent(now + pause(CLOSED, self.closed));
        self.closed = self.closed.saturating_add(1);
    }
}

impl Presence {
    /// Whether nothing arrived for so long and a round trip.
    fn is_silent(&self, subflow: &Subflow, time: Duration) -> bool {
        self.silent > time + subflow.rtt.min(STUCK_WAITING).max(2 * subflow.min_rtt)
    }

    /// Whether its data comes much later than that of others, and is not much: `equal` segments would be
    /// its share.
    fn is_slow(&self, subflow: &Subflow, fastest: Duration, equal: u64) -> bool {
        let Subflow { rtt, min_rtt, unacked, .. } = *subflow;
        unacked > 0
            && rtt > SLOW_TIMES * fastest
            && rtt.saturating_sub(min_rtt) > SLOW_WAITING
            && self.carried.is_some_and(|carried| !is_share(carried, equal))
    }
}

/// Whether so many segments in a window are a fair part of what is carried.
fn is_share(carried: u32, equal: u64) -> bool {
    u64::from(carried) * SLOW_SHARE > equal
}

fn pause((first, longest): (Duration, Duration), times: u32) -> Duration {
    first.saturating_mul(1 << times.min(16)).min(longest)
}

#[cfg(test)]
mod tests;
