//! The TCP lane: connections of traffic that opts in end at the gateway, and are opened again by the peer's
//! (docs/adr/0135).
//!
//! What a connection carries goes as messages ([`hawser_wire::lane`]), each on the path on which it
//! arrives first. What a path that has died had not delivered goes again on others.

mod begin;
mod flow;
mod intercept;
mod messages;
mod parcels;
mod schedule;
#[cfg(test)]
mod simulation;

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    io,
    net::{Ipv4Addr, Ipv6Addr},
    time::Duration,
};

use hawser_netdev::transparent::Listener;
use hawser_wire::{lane::Message, tunnel::Own};

pub(crate) use self::intercept::{remove, set};
pub(super) use self::parcels::{Parcel, Parcels};
use self::{
    flow::{Flow, Name},
    intercept::{Intercept, Ports, ruleset},
};
use super::socket::Place;
use crate::{config::Config, counters::LaneCounters};

/// Where the listening sockets, of IPv4 and of IPv6, and connections begin among the tokens of the event loop.
pub(super) const LISTENER: u64 = u64::MAX - 2;
pub(super) const LISTENER6: u64 = u64::MAX - 3;
pub(super) const FLOWS: u64 = 1 << 40;

/// Connections at a time.
const MAX_FLOWS: usize = 4096;

/// Bytes that all of them may hold from peers, and for peers.
const MEMORY: u64 = 64 << 20;
const MEMORY_UNSENT: u64 = 32 << 20;

/// Window of a connection: at first, where memory is short, and the largest. What a path loses is missing for a
/// round trip, or two, and what follows waits behind it: 8 MiB hold back two paths that together carry
/// 140 Mbit/s, with round trips of 0.3 s and 1 % of loss.
const FIRST_WINDOW: u64 = 256 << 10;
const LEAST_WINDOW: u64 = 16 << 10;
const MOST_WINDOW: u64 = 24 << 20;

/// What packets or messages have had more than the other is remembered up to so many bytes.
const MOST_LEAD: i64 = 32 << 10;

/// Numbers that a peer gave of late, at most.
const REMEMBERED: usize = 4096;

/// All connections.
pub(super) struct Lane {
    listener: Listener,
    /// None where the kernel has no IPv6.
    listener6: Option<Listener>,
    ports: Ports,
    intercept: Intercept,
    /// Whether the rules may have to change.
    pub(super) changed: bool,
    /// Addresses of this gateway's own, to which the lane does not lead.
    pub(super) own: Own,
    flows: Vec<Option<Flow>>,
    free: Vec<usize>,
    slots: HashMap<Name, usize>,
    /// Messages that have come.
    pub(super) came: Vec<(Place, Vec<u8>)>,
    /// Connections to look after.
    dirty: Vec<usize>,
    /// Bytes that peers may send for all connections, and that wait to be sent to them.
    granted: u64,
    unsent: u64,
    scratch: Box<[u8]>,
}

impl Lane {
    /// Listens, and leads nothing here yet.
    pub(super) fn new(config: &Config) -> io::Result<Self> {
        let unsupported = |error: anyhow::Error| {
            io::Error::new(io::ErrorKind::Unsupported, format!("TPROXY ({error:#})"))
        };
        let listener = Listener::bind(Ipv4Addr::LOCALHOST.into())?;
        let listener6 = Listener::bind(Ipv6Addr::LOCALHOST.into()).ok();
        let v6 = listener6.as_ref().map(Listener::port).transpose()?;
        let ports = Ports { v4: listener.port()?, v6 };
        let rules = ruleset(config, ports, &std::iter::empty());
        let intercept = Intercept::new(rules).map_err(unsupported)?;
        raise_limit();
        Ok(Self {
            listener,
            listener6,
            ports,
            intercept,
            changed: false,
            own: Own { v4: config.source, v6: config.source6 },
            flows: Vec::new(),
            free: Vec::new(),
            slots: HashMap::new(),
            came: Vec::new(),
            dirty: Vec::new(),
            granted: 0,
            unsent: 0,
            scratch: vec![0; 64 << 10].into_boxed_slice(),
        })
    }

    /// The listening sockets, with their tokens.
    pub(super) fn listeners(&self) -> impl Iterator<Item = (u64, &Listener)> {
        let v6 = self.listener6.iter().map(|listener| (LISTENER6, listener));
        std::iter::once((LISTENER, &self.listener)).chain(v6)
    }

    /// Window of another connection.
    fn grant(&mut self) -> u32 {
        let share = MEMORY.saturating_sub(self.granted) / 8;
        let window = share.clamp(LEAST_WINDOW, FIRST_WINDOW);
        self.granted += window;
        u32::try_from(window).unwrap_or(u32::MAX)
    }

    fn is_full(&self) -> bool {
        self.slots.len() >= MAX_FLOWS
    }

    fn flow_mut(&mut self, slot: usize) -> Option<&mut Flow> {
        self.flows.get_mut(slot).and_then(Option::as_mut)
    }

    fn slot(&self, name: Name) -> Option<usize> {
        self.slots.get(&name).copied()
    }

    /// Where the next connection will stand.
    fn next_slot(&self) -> usize {
        self.free.last().copied().unwrap_or(self.flows.len())
    }

    fn insert(&mut self, flow: Flow) {
        let slot = self.next_slot();
        self.slots.insert(flow.name, slot);
        if self.free.pop().is_some() {
            if let Some(place) = self.flows.get_mut(slot) {
                *place = Some(flow);
            }
        } else {
            self.flows.push(Some(flow));
        }
    }

    fn take(&mut self, slot: usize) -> Option<Flow> {
        let flow = self.flows.get_mut(slot)?.take()?;
        self.slots.remove(&flow.name);
        self.free.push(slot);
        self.granted = self.granted.saturating_sub(flow.inbound.window());
        self.unsent = self.unsent.saturating_sub(flow.unsent() as u64);
        Some(flow)
    }

    fn all_of(&self, peer: u16, group: u8) -> Vec<usize> {
        let of = |name: &Name| (name.peer, name.group) == (peer, group);
        self.slots.iter().filter(|(name, _)| of(name)).map(|(_, slot)| *slot).collect()
    }
}

/// As many descriptors as the system permits: each connection is one.
fn raise_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
}

/// What a path group has of it.
#[derive(Default)]
pub(super) struct Queue {
    /// Where the peer takes the lane: its own addresses.
    pub(super) peer: Option<Own>,
    /// What goes first: what is not data, and what is sent again.
    first: VecDeque<Parcel>,
    /// Connections that may have something to send.
    turn: VecDeque<usize>,
    numbers: Numbers,
    /// Connections of ours that ended before the peer had opened them.
    given_up: BTreeSet<u32>,
    round_trip: Duration,
    /// Bytes that packets have been given more than messages, of late.
    lead: i64,
    pub(super) flows: u32,
    pub(super) counters: LaneCounters,
}

impl Queue {
    /// Whether there may be something to send.
    pub(super) fn is_idle(&self) -> bool {
        self.first.is_empty() && self.turn.is_empty()
    }

    /// Packets have been given so many bytes; both get the same where both wait.
    pub(super) fn note_packet(&mut self, bytes: u64) {
        self.lead += i64::try_from(bytes).unwrap_or(i64::MAX);
    }

    /// Whether messages go before packets.
    pub(super) fn goes_first(&mut self) -> bool {
        self.lead = self.lead.clamp(-MOST_LEAD, MOST_LEAD);
        !self.is_idle() && self.lead > 0
    }

    fn give_up(&mut self, number: u32) {
        self.given_up.insert(number);
        if self.given_up.len() > REMEMBERED {
            self.given_up.pop_first();
        }
    }

    fn tell(&mut self, message: &Message) {
        self.first.push_back(Parcel::new(message, bytes::Bytes::new()));
    }

    /// The peer has begun anew.
    pub(super) fn forget_numbers(&mut self) {
        (self.numbers.seen, self.numbers.floor) = (BTreeSet::new(), 0);
    }

    /// What a path did not deliver goes before all other.
    pub(super) fn again(&mut self, parcels: Vec<Parcel>) {
        self.counters.resent += parcels.len() as u64;
        for parcel in parcels.into_iter().rev() {
            self.first.push_front(parcel);
        }
    }
}

/// Numbers of connections.
#[derive(Default)]
struct Numbers {
    next: u32,
    /// Those that the peer gave, from `floor` on: each is opened once.
    seen: BTreeSet<u32>,
    floor: u32,
}

impl Numbers {
    /// The next of ours.
    fn ours(&mut self, even: bool) -> u32 {
        let number = self.next << 1 | u32::from(!even);
        self.next = (self.next + 1) & (u32::MAX >> 1);
        number
    }

    /// Whether the peer gives this number for the first time.
    fn is_new(&mut self, number: u32, even: bool) -> bool {
        if (number & 1 == 0) != even || number < self.floor || !self.seen.insert(number) {
            return false;
        }
        while self.seen.len() > REMEMBERED {
            self.floor = self.seen.pop_first().map_or(self.floor, |first| first + 1);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_opens_one_connection() {
        let mut numbers = Numbers::default();
        assert_eq!([numbers.ours(true), numbers.ours(true)], [0, 2]);
        assert_eq!(numbers.ours(false), 5);
        assert!(numbers.is_new(7, false));
        assert!(!numbers.is_new(7, false), "again");
        assert!(!numbers.is_new(8, false), "one of ours");
        assert!(numbers.is_new(3, false), "overtaken");
        for n in 100..100 + 2 * u32::try_from(REMEMBERED).unwrap() {
            numbers.is_new(2 * n + 1, false);
        }
        assert!(!numbers.is_new(9, false), "long ago");
        assert!(numbers.seen.len() <= REMEMBERED);
    }
}
