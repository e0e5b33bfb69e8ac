//! All connections of the TCP proxy, and their shared memory.

use std::{collections::HashMap, time::Instant};

use hawser_wire::tunnel::OwnAddresses;

use super::{
    FULL_PACKET,
    flow::{Flow, FlowId},
    queue::{COUNTED, ProxyQueue},
    quotas::Quotas,
    stream::Stream,
};
use crate::{
    config::Class,
    limits::Limits,
    path::{EncodedMessage, PathId},
};

/// Bytes of all connections from peers, and to peers.
const MEMORY: u64 = 64 << 20;
const MEMORY_UNSENT: u64 = 32 << 20;

/// Receive window of a connection: initial, while memory is short, and maximum. Bytes behind a loss
/// wait for one or two RTTs: 8 MiB hold back two paths of 140 Mbit/s together with RTTs of 0.3 s
/// and 1 % loss.
pub(super) const INITIAL_WINDOW: u64 = 256 << 10;
const MIN_WINDOW: u64 = 16 << 10;
pub(crate) const MAX_WINDOW: u64 = 24 << 20;

/// Bytes assumed in the kernel for a connection that was not read to the end.
const KERNEL_ESTIMATE: u64 = 1 << 20;

/// Connections that are passed over, at most, because their class has used up its rate.
const TURNS: usize = 64;

/// What a message has of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Data {
    pub(crate) class: Class,
    pub(crate) bytes: u64,
}

/// All connections.
pub(crate) struct Proxy<S> {
    /// Addresses of this gateway, to which the proxy does not connect.
    pub(crate) own: OwnAddresses,
    flows: Vec<Option<Flow<S>>>,
    free: Vec<usize>,
    slots: HashMap<FlowId, usize>,
    pub(crate) quotas: Quotas,
    /// Messages received.
    pub(crate) received: Vec<(PathId, Vec<u8>)>,
    /// Connections to be serviced.
    pub(crate) pending: Vec<usize>,
    /// Whether the set of peers that take part may have changed.
    pub(crate) peers_changed: bool,
    /// Credit granted to peers for all connections, and bytes waiting to be sent to them.
    pub(crate) granted: u64,
    unsent: u64,
    scratch: Box<[u8]>,
}

impl<S: Stream> Proxy<S> {
    /// No connections yet.
    pub(crate) fn new(own: OwnAddresses) -> Self {
        Self {
            own,
            flows: Vec::new(),
            free: Vec::new(),
            slots: HashMap::new(),
            quotas: Quotas::default(),
            received: Vec::new(),
            pending: Vec::new(),
            peers_changed: false,
            granted: 0,
            unsent: 0,
            scratch: vec![0; 64 << 10].into_boxed_slice(),
        }
    }

    /// Initial window of a new connection, bytes.
    pub(crate) fn grant(&mut self) -> u32 {
        let share = self.grantable() / 8;
        let window = share.clamp(MIN_WINDOW, INITIAL_WINDOW);
        self.granted += window;
        u32::try_from(window).unwrap_or(u32::MAX)
    }

    /// Credit that may still be granted, bytes.
    pub(crate) fn grantable(&self) -> u64 {
        MEMORY.saturating_sub(self.granted)
    }

    pub(crate) fn flow_mut(&mut self, slot: usize) -> Option<&mut Flow<S>> {
        self.flows.get_mut(slot).and_then(Option::as_mut)
    }

    pub(crate) fn slot(&self, id: FlowId) -> Option<usize> {
        self.slots.get(&id).copied()
    }

    /// Slot of the next connection.
    pub(crate) fn next_slot(&self) -> usize {
        self.free.last().copied().unwrap_or(self.flows.len())
    }

    pub(crate) fn insert(&mut self, flow: Flow<S>) {
        let slot = self.next_slot();
        self.slots.insert(flow.id, slot);
        self.peers_changed |= self.quotas.add(flow.party);
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
        self.peers_changed |= self.quotas.remove(flow.party);
        self.free.push(slot);
        self.granted = self.granted.saturating_sub(flow.recv.window());
        self.unsent = self.unsent.saturating_sub(flow.unsent() as u64);
        Some(flow)
    }

    /// A second has passed; returns connections that were not opened in time.
    pub(crate) fn second(&mut self) -> Vec<usize> {
        self.peers_changed |= self.quotas.second();
        let flows = self.flows.iter_mut().enumerate();
        let late = flows.filter_map(|(slot, flow)| flow.as_mut()?.is_late().then_some(slot));
        late.collect()
    }

    /// Slots of the connections that satisfy `wanted`.
    pub(crate) fn all(&self, wanted: impl Fn(&FlowId) -> bool) -> Vec<usize> {
        self.slots.iter().filter(|(id, _)| wanted(id)).map(|(_, slot)| *slot).collect()
    }

    /// Estimate of the bytes waiting in a group's queue.
    pub(crate) fn backlog(&self, queue: &ProxyQueue) -> u64 {
        let ready = queue.ready.iter().take(COUNTED);
        let flows = ready.filter_map(|slot| self.flows.get(*slot)?.as_ref());
        let bytes = flows.map(|flow| {
            let unread = if flow.readable { KERNEL_ESTIMATE } else { 0 };
            (flow.unsent() as u64 + unread).min(flow.send.credit())
        });
        (queue.priority_bytes() + bytes.sum::<u64>()).max(1)
    }

    /// Turns a group's queue until its first connection may send by the limits; false if none of the
    /// first [`TURNS`] may.
    pub(crate) fn turn_to_admitted(
        &self,
        queue: &mut ProxyQueue,
        limits: &mut Limits,
        now: Instant,
    ) -> bool {
        if !queue.priority.is_empty() {
            return true;
        }
        for _ in 0..queue.ready.len().min(TURNS) {
            let first = queue.ready.front().and_then(|slot| self.flows.get(*slot)?.as_ref());
            if first.is_none_or(|flow| limits.admits(now, flow.class)) {
                return true;
            }
            queue.ready.rotate_left(1);
        }
        false
    }

    /// The next message of a group's queue, with at most `packets` packets of data, and what it has
    /// of a connection.
    pub(crate) fn next_message(
        &mut self,
        queue: &mut ProxyQueue,
        packets: usize,
    ) -> Option<(EncodedMessage, Data)> {
        if let Some(message) = queue.priority.pop_front() {
            return Some((message, Data::default()));
        }
        let slot = queue.ready.pop_front()?;
        let left = MEMORY_UNSENT.saturating_sub(self.unsent);
        let flow = self.flows.get_mut(slot)?.as_mut()?;
        let before = flow.unsent() as u64;
        flow.fill(&mut self.scratch, left);
        let message = flow.next(packets * FULL_PACKET);
        self.unsent = (self.unsent + flow.unsent() as u64).saturating_sub(before);
        let (failed, may_send) = (flow.failed.is_some(), flow.may_send());
        flow.queued = message.is_some() && may_send;
        if flow.queued {
            queue.ready.push_back(slot);
        }
        if failed || message.as_ref().is_some_and(|(_, last)| *last) {
            self.pending.push(slot);
        }
        let class = flow.class;
        let (message, _) = message?;
        let bytes = message.payload_len() as u64;
        Some((message, Data { class, bytes }))
    }
}
