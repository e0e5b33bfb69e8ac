//! All connections of the TCP proxy, and the memory that they share.

use std::collections::HashMap;

use hawser_wire::tunnel::OwnAddresses;

use super::{
    FULL,
    flow::{Flow, FlowId},
    queue::{COUNTED, ProxyQueue},
    stream::Stream,
};
use crate::path::{EncodedMessage, PathId};

/// Connections at a time.
const MAX_FLOWS: usize = 4096;

/// Bytes that all of them may hold from peers, and for peers.
const MEMORY: u64 = 64 << 20;
const MEMORY_UNSENT: u64 = 32 << 20;

/// Window of a connection: at first, where memory is short, and the largest. What a path loses is missing for a
/// round trip, or two, and what follows waits behind it: 8 MiB hold back two paths that together carry
/// 140 Mbit/s, with round trips of 0.3 s and 1 % of loss.
pub(super) const FIRST_WINDOW: u64 = 256 << 10;
const LEAST_WINDOW: u64 = 16 << 10;
pub(crate) const MOST_WINDOW: u64 = 24 << 20;

/// Bytes that stand in the kernel for a connection that was not read to the end.
const IN_KERNEL: u64 = 1 << 20;

/// All connections.
pub(crate) struct Proxy<S> {
    /// Addresses of this gateway's own, to which the proxy does not connect.
    pub(crate) own: OwnAddresses,
    flows: Vec<Option<Flow<S>>>,
    free: Vec<usize>,
    slots: HashMap<FlowId, usize>,
    /// Messages that have come.
    pub(crate) received: Vec<(PathId, Vec<u8>)>,
    /// Connections to look after.
    pub(crate) dirty: Vec<usize>,
    /// Whether other peers may take part than before.
    pub(crate) peers_changed: bool,
    /// Bytes that peers may send for all connections, and that wait to be sent to them.
    pub(crate) granted: u64,
    unsent: u64,
    scratch: Box<[u8]>,
}

impl<S: Stream> Proxy<S> {
    /// No connection yet.
    pub(crate) fn new(own: OwnAddresses) -> Self {
        Self {
            own,
            flows: Vec::new(),
            free: Vec::new(),
            slots: HashMap::new(),
            received: Vec::new(),
            dirty: Vec::new(),
            peers_changed: false,
            granted: 0,
            unsent: 0,
            scratch: vec![0; 64 << 10].into_boxed_slice(),
        }
    }

    /// Window of another connection.
    pub(crate) fn grant(&mut self) -> u32 {
        let share = self.grantable() / 8;
        let window = share.clamp(LEAST_WINDOW, FIRST_WINDOW);
        self.granted += window;
        u32::try_from(window).unwrap_or(u32::MAX)
    }

    /// Bytes that may still be granted.
    pub(crate) fn grantable(&self) -> u64 {
        MEMORY.saturating_sub(self.granted)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.slots.len() >= MAX_FLOWS
    }

    pub(crate) fn flow_mut(&mut self, slot: usize) -> Option<&mut Flow<S>> {
        self.flows.get_mut(slot).and_then(Option::as_mut)
    }

    pub(crate) fn slot(&self, id: FlowId) -> Option<usize> {
        self.slots.get(&id).copied()
    }

    /// Where the next connection will stand.
    pub(crate) fn next_slot(&self) -> usize {
        self.free.last().copied().unwrap_or(self.flows.len())
    }

    pub(crate) fn insert(&mut self, flow: Flow<S>) {
        let slot = self.next_slot();
        self.slots.insert(flow.id, slot);
        if self.free.pop().is_some() {
            if let Some(place) = self.flows.get_mut(slot) {
                *place = Some(flow);
            }
        } else {
            self.flows.push(Some(flow));
        }
    }

    pub(crate) fn take(&mut self, slot: usize) -> Option<Flow<S>> {
        let flow = self.flows.get_mut(slot)?.take()?;
        self.slots.remove(&flow.id);
        self.free.push(slot);
        self.granted = self.granted.saturating_sub(flow.inbound.window());
        self.unsent = self.unsent.saturating_sub(flow.unsent() as u64);
        Some(flow)
    }

    /// The connections for which this holds.
    pub(crate) fn all(&self, wanted: impl Fn(&FlowId) -> bool) -> Vec<usize> {
        self.slots.iter().filter(|(id, _)| wanted(id)).map(|(_, slot)| *slot).collect()
    }

    /// Bytes that wait in a group's queue, about.
    pub(crate) fn backlog(&self, queue: &ProxyQueue) -> u64 {
        let turns = queue.turns.iter().take(COUNTED);
        let flows = turns.filter_map(|slot| self.flows.get(*slot)?.as_ref());
        let bytes = flows.map(|flow| {
            let unread = if flow.readable { IN_KERNEL } else { 0 };
            (flow.unsent() as u64 + unread).min(flow.outbound.room())
        });
        (queue.first_bytes() + bytes.sum::<u64>()).max(1)
    }

    /// The next message of a group's queue, with data of at most so many packets, and how many bytes that is.
    pub(crate) fn next_message(
        &mut self,
        queue: &mut ProxyQueue,
        packets: usize,
    ) -> Option<(EncodedMessage, u64)> {
        if let Some(message) = queue.first.pop_front() {
            return Some((message, 0));
        }
        let slot = queue.turns.pop_front()?;
        let left = MEMORY_UNSENT.saturating_sub(self.unsent);
        let flow = self.flows.get_mut(slot)?.as_mut()?;
        let before = flow.unsent() as u64;
        flow.fill(&mut self.scratch, left);
        let message = flow.next(packets * FULL);
        self.unsent = (self.unsent + flow.unsent() as u64).saturating_sub(before);
        let (failed, may_send) = (flow.failed.is_some(), flow.may_send());
        flow.queued = message.is_some() && may_send;
        if flow.queued {
            queue.turns.push_back(slot);
        }
        if failed || message.as_ref().is_some_and(|(_, last)| *last) {
            self.dirty.push(slot);
        }
        let (message, _) = message?;
        let data = message.payload_len() as u64;
        Some((message, data))
    }
}
