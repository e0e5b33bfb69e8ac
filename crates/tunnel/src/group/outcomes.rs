//! What became of packets that were sent, and when paths have become silent (docs/design/retransmission.md).

use std::time::{Duration, Instant};

use hawser_multipath::State;

use super::state::Group;
use crate::path::Outcomes;

/// A packet that was neither acknowledged nor lost for so long was sent from an address that we no longer have.
const FORGOTTEN: Duration = Duration::from_secs(1);

/// Paths are looked at so much later than they may be silent: others are to have answered by then.
const LATER: Duration = Duration::from_millis(2);

impl Group {
    /// Takes note of what became of retransmittable packets.
    pub(crate) fn note_outcomes(&mut self, now: Instant, outcomes: Outcomes) {
        let Outcomes { acked, lost, given_up } = outcomes;
        self.counters.recovery.given_up += given_up.len() as u64;
        if let Some(compressor) = &mut self.compressor {
            for (flow, sequence) in &acked {
                compressor.came(*flow, *sequence);
            }
        }
        for (flow, sequence) in acked.into_iter().chain(given_up) {
            self.sequencer.settle(flow, sequence);
        }
        for packet in lost {
            if let Some(late) = self.lost.add(now, packet) {
                self.counters.recovery.given_up += 1;
                self.sequencer.settle(late.flow, late.sequence);
            }
        }
        for late in self.lost.expire(now) {
            self.counters.recovery.given_up += 1;
            self.sequencer.settle(late.flow, late.sequence);
        }
        self.active |= self.has_work();
    }

    /// Sends what was given to paths that have become silent on others, if there are any; returns when to look again.
    pub(crate) fn recover_silent(&mut self, now: Instant) -> Option<Instant> {
        let heard = self.links().filter_map(|link| link.path.get().heard()).max();
        let (mut next, mut others) = (None, 0);
        for link in self.links() {
            let mut path = link.path.get();
            path.note_group_heard(heard);
            next = path.silent_at(now).map(|at| at + LATER).into_iter().chain(next).min();
            others += usize::from(path.state(now) == State::Up);
        }
        for member in 0..self.members.len() {
            let Some(link) = self.members.get_mut(member).and_then(|m| m.link.as_mut()) else {
                continue;
            };
            let in_flight = link.path.in_flight();
            if let Some(old) = now.checked_sub(FORGOTTEN) {
                in_flight.lost(old);
            }
            let silent = matches!(link.path.get().state(now), State::Degraded | State::Down);
            if silent && others > 0 {
                in_flight.declare_all_lost();
            }
            let outcomes = link.outcomes();
            self.note_outcomes(now, outcomes);
        }
        next
    }

    /// The longest round trip of its paths is that of proxied connections; takes back messages of paths that are down.
    pub(crate) fn tend_messages(&mut self, now: Instant) {
        let mut longest = Duration::ZERO;
        let mut reclaimed = Vec::new();
        for link in self.links_mut() {
            longest = longest.max(link.path.get().rtt().unwrap_or_default());
            let state = link.path.get().state(now);
            if state == State::Down && link.messages.has_unacked() {
                reclaimed.push(link.reclaim_messages());
            }
        }
        for messages in reclaimed {
            self.proxy.requeue(messages);
        }
        self.proxy.round_trip = longest;
    }
}
