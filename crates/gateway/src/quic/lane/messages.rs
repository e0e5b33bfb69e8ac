//! What becomes of messages and connections.

use std::time::{Duration, Instant};

use hawser_multipath::State;
use hawser_wire::lane::{Kind, Message, Reason};

use super::{
    MEMORY, MOST_WINDOW,
    flow::{Name, Stage},
    intercept::ruleset,
};
use crate::quic::{Quic, socket::Place};

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// Both ends have.
    Finished,
    /// The end here has reset it, or worse: the peer is told.
    Failed(Reason),
    /// The peer has said so, or is gone.
    Gone,
}

impl Quic {
    /// Takes the messages that have come, and looks after connections; whether there were any.
    pub(in crate::quic) fn attend_lane(&mut self, now: Instant) -> bool {
        let Some(lane) = &mut self.lane else { return false };
        let came = std::mem::take(&mut lane.came);
        for (place, bytes) in &came {
            self.take_message(*place, bytes);
        }
        let Some(lane) = &mut self.lane else { return false };
        let mut dirty = std::mem::take(&mut lane.dirty);
        dirty.sort_unstable();
        dirty.dedup();
        for slot in &dirty {
            self.look_after(*slot, now);
        }
        !(came.is_empty() && dirty.is_empty())
    }

    fn take_message(&mut self, place: Place, bytes: &[u8]) {
        let Some(group) = self.group_mut(place.peer, place.group) else { return };
        let Ok((Message { flow, kind }, payload)) = Message::parse(bytes) else {
            group.counters.drops.malformed += 1;
            return;
        };
        if let Kind::Open { source, destination, window } = kind {
            self.reach(place, flow, (source, destination), window);
            return;
        }
        let name = Name { peer: place.peer, group: place.group, number: flow };
        let Some(lane) = &mut self.lane else { return };
        let Some(slot) = lane.slot(name) else {
            // Late messages of connections that have ended are nothing new.
            if matches!(kind, Kind::Opened { .. }) {
                self.refuse(place, flow);
            }
            return;
        };
        let Some(flow) = lane.flow_mut(slot) else { return };
        match kind {
            Kind::Data { offset, end } => {
                if flow.inbound.insert(offset, payload, end).is_err() {
                    flow.failed = Some(Reason::Violation);
                }
                lane.dirty.push(slot);
            }
            Kind::Opened { window } => {
                if flow.stage == Stage::Opening {
                    flow.stage = Stage::Open;
                    flow.outbound.allow(window.into());
                    self.may_send(slot);
                }
            }
            Kind::Credit { limit } => {
                flow.outbound.allow(limit);
                self.may_send(slot);
            }
            Kind::Reset(_) => self.end_flow(slot, Ending::Gone),
            Kind::Open { .. } => {}
        }
    }

    /// The peer has opened a connection that may have been given up here before: if the word of that came
    /// first, the peer knew nothing of it then.
    fn refuse(&mut self, place: Place, flow: u32) {
        if let Some(group) = self.group_mut(place.peer, place.group)
            && group.lane.given_up.remove(&flow)
        {
            group.lane.tell(&Message { flow, kind: Kind::Reset(Reason::Reset) });
            group.active = true;
        }
    }

    /// Hands on what has come for a connection, and ends it when it is time.
    fn look_after(&mut self, slot: usize, now: Instant) {
        let Some(lane) = &mut self.lane else { return };
        let left = MEMORY.saturating_sub(lane.granted);
        let Some(flow) = lane.flow_mut(slot) else { return };
        if let Some(reason) = flow.failed {
            return self.end_flow(slot, Ending::Failed(reason));
        }
        let taken = match flow.drain() {
            Ok(taken) => taken,
            Err(reason) => return self.end_flow(slot, Ending::Failed(reason)),
        };
        let (name, before) = (flow.name, flow.inbound.window());
        let most = MOST_WINDOW.min(before + left);
        let Some(group) = self.peers.get_mut(&name.peer) else { return };
        let Some(group) = group.groups.get_mut(&name.group) else { return };
        group.lane.counters.received_bytes += taken;
        if let Some(limit) = flow.inbound.credit(now, group.lane.round_trip, most) {
            group.lane.tell(&Message { flow: name.number, kind: Kind::Credit { limit } });
            group.active = true;
        }
        let (done, after) = (flow.is_done(), flow.inbound.window());
        lane.granted += after - before;
        if done {
            self.end_flow(slot, Ending::Finished);
        }
    }

    /// A connection is no more.
    fn end_flow(&mut self, slot: usize, ending: Ending) {
        let Some(flow) = self.lane.as_mut().and_then(|lane| lane.take(slot)) else { return };
        let Some(group) = self.group_mut(flow.name.peer, flow.name.group) else { return };
        group.lane.flows = group.lane.flows.saturating_sub(1);
        group.lane.turn.retain(|other| *other != slot);
        match ending {
            Ending::Finished => {
                group.lane.counters.ended += 1;
                let _ = flow.socket.finish();
            }
            Ending::Failed(reason) => {
                group.lane.counters.reset += 1;
                if flow.stage == Stage::Opening {
                    group.lane.give_up(flow.name.number);
                }
                group.lane.tell(&flow.reset(reason));
                group.active = true;
            }
            Ending::Gone => group.lane.counters.reset += 1,
        }
    }

    /// Nothing of the group's connections is known to the peer any more: they are reset.
    pub(in crate::quic) fn end_flows(&mut self, peer: u16, group: u8) {
        let Some(lane) = &mut self.lane else { return };
        lane.changed = true;
        for slot in lane.all_of(peer, group) {
            self.end_flow(slot, Ending::Gone);
        }
        let Some(found) = self.group_mut(peer, group) else { return };
        found.lane.first.clear();
        for (socket, handle) in found.links() {
            if let Some(link) = self.link_mut(socket, handle) {
                link.parcels.forget();
            }
        }
    }

    /// Ends connections of groups that are no more, or have been made anew.
    pub(in crate::quic) fn forget_flows(&mut self) {
        let Some(lane) = &mut self.lane else { return };
        lane.changed = true;
        let exists = |peer: u16, group: u8| {
            let group = self.peers.get(&peer).and_then(|peer| peer.groups.get(&group));
            group.is_some_and(|group| group.lane.flows > 0)
        };
        let gone = lane.slots.iter().filter(|(name, _)| !exists(name.peer, name.group));
        let gone: Vec<_> = gone.map(|(_, slot)| *slot).collect();
        for slot in gone {
            drop(lane.take(slot));
        }
    }

    /// Looks at what is in no hurry: the rules, round trips, and paths that have died.
    pub(in crate::quic) fn tick_lane(&mut self, now: Instant) {
        let Some(lane) = &mut self.lane else { return };
        if lane.changed {
            let peers = self.peers.values().filter_map(|peer| {
                let own = peer.groups.values().find_map(|group| group.lane.peer)?;
                Some((&peer.config, own))
            });
            let rules = ruleset(&self.config, lane.ports, &peers);
            lane.changed = !lane.intercept.change(rules);
        }
        for group in self.peers.values_mut().flat_map(|peer| peer.groups.values_mut()) {
            let mut longest = Duration::ZERO;
            for (socket, handle) in group.links() {
                let socket = self.sockets.get_mut(&socket);
                let Some(link) = socket.and_then(|s| s.links.get_mut(&handle)) else { continue };
                longest = longest.max(link.path.get().rtt().unwrap_or_default());
                let state = link.path.get().state(now);
                if state == State::Down && link.parcels.are_under_way() {
                    group.lane.again(link.take_back());
                }
            }
            group.lane.round_trip = longest;
        }
    }
}
