//! The flows that are going on.

use std::collections::{HashMap, VecDeque};

use hawser_wire::{
    ipv4::protocol::{TCP, UDP},
    tcp::flag,
};

use crate::{
    order::{List, Order},
    packet::Packet,
    record::{Reason, Record},
    statistics::Statistics,
    tcp::Connection,
    tuple::{Seeded, Tuple},
};

/// Packets after which a flow that goes on has a record, so that it can be judged before it ends.
const EARLY: [u64; 3] = [8, 16, 32];

/// Limits and times of a table; times in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Flows at most, at least 1. Each takes about 900 bytes.
    pub capacity: u32,
    /// Length of a window: each flow with packets in it has a record at its end. At least 1.
    pub window: u64,
    /// A flow silent for longer has ended.
    pub idle_timeout: u64,
    /// A longer time between two packets is a pause: it separates two active times.
    pub pause: u64,
    /// A flow of fewer packets than have an early record has one at this age, if it goes on; 0: it has none. So
    /// floods of flows of a packet each are seen before their window ends.
    pub early_after: u64,
    /// Seed of the hash; unknown to those who send the packets.
    pub seed: u64,
}

impl Default for Settings {
    /// 64 Ki flows (57 MiB); 2 s as in 002; pauses over 1 s and an end after 600 s as in flowtbag.
    fn default() -> Self {
        Self {
            capacity: 1 << 16,
            window: 2_000_000,
            idle_timeout: 600_000_000,
            pause: 1_000_000,
            early_after: 0,
            seed: 0,
        }
    }
}

/// What a table has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets counted into a flow.
    pub packets: u64,
    /// Packets older than the last one of their flow; not counted into it.
    pub reordered: u64,
    /// Flows begun.
    pub flows: u64,
    /// Flows that had to make room for others.
    pub evicted: u64,
}

/// A flow that goes on.
#[derive(Debug)]
struct Flow {
    number: u64,
    tuple: Tuple,
    is_begun: bool,
    all: Statistics,
    window: Statistics,
    connection: Connection,
    is_conversation: bool,
}

impl Flow {
    fn new(now: u64, number: u64, packet: &Packet) -> Self {
        let opens = packet.flags & (flag::SYN | flag::ACK) == flag::SYN;
        Self {
            number,
            tuple: packet.tuple,
            is_begun: packet.tuple.protocol != TCP || opens,
            all: Statistics::new(now),
            window: Statistics::new(now),
            connection: Connection::default(),
            is_conversation: false,
        }
    }

    fn add(&mut self, now: u64, packet: &Packet, pause: u64) {
        let is_forward = packet.tuple == self.tuple;
        if self.window.packets() == 0 {
            self.window = Statistics::new(now);
        }
        self.all.add(now, packet, is_forward, pause);
        self.window.add(now, packet, is_forward, pause);
        match self.tuple.protocol {
            UDP => self.is_conversation = self.all.has_both_directions(),
            TCP => {
                let has_data = packet.length > packet.header_length;
                self.is_conversation |= self.connection.is_established() && has_data;
                self.connection.update(packet.flags, is_forward);
            }
            _ => {}
        }
    }

    fn record(&self, reason: Reason) -> Record {
        let statistics = if reason == Reason::Window { &self.window } else { &self.all };
        Record {
            number: self.number,
            is_begun: self.is_begun,
            tuple: self.tuple,
            reason,
            first: statistics.first,
            last: statistics.last,
            is_conversation: self.is_conversation,
            features: statistics.features(),
        }
    }

    /// Its list: flows heard from both sides are the last to make room.
    fn list(&self) -> usize {
        usize::from(self.all.has_both_directions())
    }
}

/// A flow that has begun at `since` and is not yet old enough for its early record.
#[derive(Clone, Copy, Debug)]
struct Young {
    since: u64,
    id: u32,
    number: u64,
}

/// All flows that are going on, at most [`Settings::capacity`].
///
/// A full table evicts the flow that was silent longest among those heard from one side only, so that a
/// flood of random tuples does not push out conversations; only then one of the others.
#[derive(Debug)]
pub struct FlowTable {
    settings: Settings,
    index: HashMap<Tuple, u32, Seeded>,
    flows: Vec<Option<Flow>>,
    free: Vec<u32>,
    order: Order,
    lists: [List; 2],
    young: VecDeque<Young>,
    window_end: u64,
    now: u64,
    counters: Counters,
}

impl FlowTable {
    /// An empty table.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            index: HashMap::with_hasher(Seeded(settings.seed)),
            flows: Vec::new(),
            free: Vec::new(),
            order: Order::default(),
            lists: [List::default(); 2],
            young: VecDeque::new(),
            window_end: 0,
            now: 0,
            counters: Counters::default(),
        }
    }

    /// What was seen so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// How many flows are going on.
    #[must_use]
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether no flow is going on.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Counts a packet that was seen at `now`, microseconds. `emit` takes the records that come of it.
    pub fn observe(&mut self, now: u64, packet: &Packet, emit: &mut impl FnMut(Record)) {
        self.advance(now, emit);
        let key = packet.tuple.canonical();
        let id = match self.index.get(&key) {
            Some(id) => *id,
            None => self.begin(now, key, packet, emit),
        };
        let Some(flow) = self.flows.get_mut(id as usize).and_then(Option::as_mut) else { return };
        if now < flow.all.last {
            self.counters.reordered += 1;
            return;
        }
        let list = flow.list();
        flow.add(now, packet, self.settings.pause);
        self.counters.packets += 1;
        let packets = flow.all.packets();
        let is_closed = flow.connection.is_closed();
        if !is_closed && EARLY.contains(&packets) {
            emit(flow.record(Reason::Early(packets)));
        }
        self.heard(id, list);
        if is_closed {
            self.end(id, Reason::Closed, emit);
        }
    }

    /// Lets time pass: windows end, and flows that were silent for too long.
    pub fn advance(&mut self, now: u64, emit: &mut impl FnMut(Record)) {
        self.now = self.now.max(now);
        self.end_youth(emit);
        if self.now >= self.window_end {
            self.end_window(emit);
        }
        for list in 0..self.lists.len() {
            while let Some(id) = self.oldest(list).filter(|id| self.is_idle(*id)) {
                self.end(id, Reason::Idle, emit);
            }
        }
    }

    /// Ends all flows, as at the end of a capture.
    pub fn finish(&mut self, emit: &mut impl FnMut(Record)) {
        for list in 0..self.lists.len() {
            while let Some(id) = self.oldest(list) {
                self.end(id, Reason::Ended, emit);
            }
        }
    }

    fn begin(
        &mut self,
        now: u64,
        key: Tuple,
        packet: &Packet,
        emit: &mut impl FnMut(Record),
    ) -> u32 {
        if self.index.len() >= self.settings.capacity.max(1) as usize
            && let Some(id) = self.oldest(0).or_else(|| self.oldest(1))
        {
            self.counters.evicted += 1;
            self.end(id, Reason::Evicted, emit);
        }
        let id = self.free.pop().unwrap_or_else(|| {
            self.flows.push(None);
            u32::try_from(self.flows.len() - 1).unwrap_or(u32::MAX)
        });
        if let Some(slot) = self.flows.get_mut(id as usize) {
            *slot = Some(Flow::new(now, self.counters.flows + 1, packet));
        }
        self.index.insert(key, id);
        self.append(0, id);
        self.counters.flows += 1;
        if self.settings.early_after > 0 {
            self.await_age(Young { since: now, id, number: self.counters.flows });
        }
        id
    }

    /// Remembers a flow until it is old enough for its early record; as many as the table has places.
    fn await_age(&mut self, young: Young) {
        if self.young.len() >= self.settings.capacity.max(1) as usize {
            self.young.pop_front(); // its flow was evicted, or has a record soon: others came in its stead
        }
        self.young.push_back(young);
    }

    /// Reports flows that are old enough, and have no early record for their packets.
    fn end_youth(&mut self, emit: &mut impl FnMut(Record)) {
        let early_after = self.settings.early_after;
        while let Some(Young { id, number, .. }) =
            self.young.pop_front_if(|young| young.since.saturating_add(early_after) <= self.now)
        {
            let flow = self.flow(id).filter(|flow| flow.number == number);
            if let Some(flow) = flow.filter(|flow| flow.all.packets() < EARLY[0]) {
                emit(flow.record(Reason::Early(flow.all.packets())));
            }
        }
    }

    /// Makes `id` the newest of its list; it was in `list`.
    fn heard(&mut self, id: u32, list: usize) {
        self.remove(list, id);
        self.append(self.flow(id).map_or(0, Flow::list), id);
    }

    fn end(&mut self, id: u32, reason: Reason, emit: &mut impl FnMut(Record)) {
        let Some(flow) = self.flows.get_mut(id as usize).and_then(Option::take) else { return };
        self.remove(flow.list(), id);
        self.index.remove(&flow.tuple.canonical());
        self.free.push(id);
        emit(flow.record(reason));
    }

    /// Reports every flow heard in the window that has ended, and begins the one that holds now.
    fn end_window(&mut self, emit: &mut impl FnMut(Record)) {
        let length = self.settings.window.max(1);
        for list in self.lists {
            let mut next = list.newest();
            while let Some(id) = next {
                next = self.order.older(id);
                let Some(flow) = self.flows.get_mut(id as usize).and_then(Option::as_mut) else {
                    break;
                };
                if flow.window.packets() == 0 {
                    break; // nor had those that were heard before it
                }
                emit(flow.record(Reason::Window));
                flow.window = Statistics::new(self.now);
            }
        }
        self.window_end = (self.now / length + 1).saturating_mul(length);
    }

    fn is_idle(&self, id: u32) -> bool {
        self.flow(id)
            .is_some_and(|flow| self.now.saturating_sub(flow.all.last) > self.settings.idle_timeout)
    }

    fn flow(&self, id: u32) -> Option<&Flow> {
        self.flows.get(id as usize)?.as_ref()
    }

    fn oldest(&self, list: usize) -> Option<u32> {
        self.lists.get(list)?.oldest()
    }

    fn append(&mut self, list: usize, id: u32) {
        if let Some(list) = self.lists.get_mut(list) {
            self.order.append(list, id);
        }
    }

    fn remove(&mut self, list: usize, id: u32) {
        if let Some(list) = self.lists.get_mut(list) {
            self.order.remove(list, id);
        }
    }
}
