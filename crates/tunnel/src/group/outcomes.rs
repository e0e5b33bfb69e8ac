//! Outcomes of packets in flight, and silent paths (docs/design/retransmission.md).

use std::time::{Duration, Instant};

use hawser_multipath::State;

use super::state::Group;
use crate::path::Outcomes;

/// A packet neither acknowledged nor declared lost for this long was sent from an address that the
/// gateway no longer has.
const MAX_IN_FLIGHT_TIME: Duration = Duration::from_secs(1);

/// Margin after a path's liveness deadline, so that acknowledgements on other paths arrive first.
const LIVENESS_MARGIN: Duration = Duration::from_millis(2);

impl Group {
    /// Applies the outcomes of retransmittable packets.
    pub(crate) fn apply_outcomes(&mut self, now: Instant, outcomes: Outcomes) {
        let Outcomes { acked, lost, abandoned } = outcomes;
        self.counters.recovery.abandoned += abandoned.len() as u64;
        if let Some(compressor) = &mut self.compressor {
            for (flow, sequence) in &acked {
                compressor.on_acked(*flow, *sequence);
            }
        }
        for (flow, sequence) in acked.into_iter().chain(abandoned) {
            self.sequencer.complete(flow, sequence);
        }
        for packet in lost {
            if let Some(late) = self.retransmit_queue.push(now, packet) {
                self.counters.recovery.abandoned += 1;
                self.sequencer.complete(late.flow, late.sequence);
            }
        }
        for late in self.retransmit_queue.expire(now) {
            self.counters.recovery.abandoned += 1;
            self.sequencer.complete(late.flow, late.sequence);
        }
        self.active |= self.has_work();
    }

    /// Retransmits what is in flight on silent paths, if another path is up; returns when to check
    /// again.
    pub(crate) fn retransmit_from_silent(&mut self, now: Instant) -> Option<Instant> {
        let last_ack = self.links().filter_map(|link| link.path.get().last_ack()).max();
        let (mut next, mut others) = (None, 0);
        for link in self.links() {
            let mut path = link.path.get();
            path.note_group_ack(last_ack);
            next = path
                .next_liveness_check(now)
                .map(|at| at + LIVENESS_MARGIN)
                .into_iter()
                .chain(next)
                .min();
            others += usize::from(path.state(now) == State::Up);
        }
        for member in 0..self.members.len() {
            let Some(link) = self.members.link_mut(member) else { continue };
            let in_flight = link.path.in_flight();
            if let Some(old) = now.checked_sub(MAX_IN_FLIGHT_TIME) {
                in_flight.lost(old);
            }
            let silent = matches!(link.path.get().state(now), State::Degraded | State::Down);
            if silent && others > 0 {
                in_flight.declare_all_lost();
            }
            let outcomes = link.outcomes();
            self.apply_outcomes(now, outcomes);
        }
        next
    }

    /// Sets the RTT of proxied connections to the longest of any path, and moves messages away from
    /// paths that are down.
    pub(crate) fn maintain_messages(&mut self, now: Instant) {
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
        self.proxy.rtt = longest;
    }
}
