//! One proxied connection over paths on virtual time.

use std::time::{Duration, Instant};

use bytes::Bytes;
use hawser_multipath::{Inbound, Outbound, Scheduler, View};
use hawser_wire::proxy::{Kind, Message};

use super::{
    FULL,
    flows::{FIRST_WINDOW, MOST_WINDOW},
};
use crate::path::{
    EncodedMessage, INNER_MTU, LARGEST, Link,
    simulation::{Gateway, Simulation, Wire},
};

const PACKET: u64 = 1200;

/// An end of the connection.
struct End {
    scheduler: Scheduler,
    outbound: Outbound,
    inbound: Inbound,
    /// What is to be told.
    first: Vec<EncodedMessage>,
    sends: bool,
    read: u64,
}

impl End {
    fn new(sends: bool) -> Self {
        Self {
            scheduler: Scheduler::default(),
            outbound: Outbound::new(FIRST_WINDOW),
            inbound: Inbound::new(FIRST_WINDOW),
            first: Vec::new(),
            sends,
            read: 0,
        }
    }

    /// The next message, for a path that is to take so many bytes of the connection at most.
    fn next(&mut self, most: usize) -> Option<EncodedMessage> {
        if !self.first.is_empty() {
            return Some(self.first.remove(0));
        }
        let piece = self.outbound.next(1 << 20, false, most, FULL)?;
        let kind = Kind::Data { offset: piece.offset, end: false };
        Some(EncodedMessage::new(&Message { flow: 0, kind }, vec![7; piece.len].into()))
    }

    /// Reads what has come, and says how much more may.
    fn read(&mut self, now: Instant, rtt: Duration) {
        let ready = self.inbound.all_ready().map(<[u8]>::len).sum();
        self.inbound.consume(ready);
        self.read += ready as u64;
        if let Some(limit) = self.inbound.credit(now, rtt, MOST_WINDOW) {
            let kind = Kind::Credit { limit };
            self.first.push(EncodedMessage::new(&Message { flow: 0, kind }, Bytes::new()));
        }
    }
}

impl Gateway for End {
    fn take(&mut self, bytes: Vec<u8>) {
        let (Message { kind, .. }, payload) = Message::parse(&bytes).unwrap();
        match kind {
            Kind::Data { offset, end } => self.inbound.insert(offset, payload, end).unwrap(),
            Kind::Credit { limit } => self.outbound.allow(limit),
            _ => unreachable!(),
        }
    }

    fn give(&mut self, now: Instant, links: &mut [&mut Link]) -> bool {
        let rtt = links.iter().filter_map(|link| link.path.get().rtt()).max();
        self.read(now, rtt.unwrap_or_default());
        let busy = links.iter().any(|link| link.messages.has_unacked());
        let leeway = if busy || self.sends { Link::weight(INNER_MTU.into()) } else { 0 };
        let mut views: Vec<View> = links.iter_mut().map(|link| link.view(now, leeway)).collect();
        let mut given = false;
        loop {
            let backlog = if self.sends { self.outbound.room().min(1 << 20) } else { 0 };
            let backlog = backlog.max(u64::from(!self.first.is_empty()));
            if backlog == 0 {
                return given;
            }
            let Some(choice) = self.scheduler.next(&views, backlog, PACKET, false) else {
                return given;
            };
            let worth = views[choice.path].rate.bytes(Duration::from_millis(4));
            let most = (worth / u64::from(LARGEST)).clamp(1, 16) as usize * FULL;
            let Some(message) = self.next(most) else { return given };
            views[choice.path].sent(Link::weight(message.len() as u64));
            assert!(links[choice.path].send_message(message).is_ok());
            given = true;
        }
    }
}

/// What each side reads, Mbit/s, in `measured` seconds after so many that do not count.
fn goodput(wires: &[Wire], seed: u64, both: bool, warmup: u64, measured: u64) -> [f64; 2] {
    let mut simulation = Simulation::new(wires, seed, [true, both].map(End::new));
    let begin = simulation.now + Duration::from_secs(warmup);
    simulation.run(begin);
    let before = simulation.gateways.each_ref().map(|end| end.read);
    simulation.run(begin + Duration::from_secs(measured));
    let after = simulation.gateways.each_ref().map(|end| end.read);
    [1, 0].map(|side| (after[side] - before[side]) as f64 * 8e-6 / measured as f64)
}

/// Both paths of the first wire's kind.
fn two(loss: f64) -> [Wire; 2] {
    let delay = Duration::from_millis(20);
    [Wire { mbps: 10.0, delay, loss }; 2]
}

#[test]
fn paths_that_lose_packets_are_full() {
    for loss in [0.0, 0.005, 0.02] {
        let [read, _] = goodput(&two(loss), 7, false, 3, 2);
        assert!(read > 17.0, "{loss}: {read} of 20 Mbit/s");
    }
}

#[test]
fn both_directions_together_do_not_wait_for_each_other() {
    let read = goodput(&two(0.0), 8, true, 3, 2);
    assert!(read.iter().sum::<f64>() > 20.0, "{read:?} of 20 Mbit/s each way");
}

/// An LTE path and a satellite: what the latter loses is missing for a quarter of a second, and what its first window
/// sends in a burst stands in its queue long before it is full.
#[test]
fn a_long_path_that_loses_packets_is_filled() {
    let wire = |mbps, delay, loss| Wire { mbps, delay: Duration::from_millis(delay), loss };
    let wires = [wire(40.0, 60, 0.0), wire(100.0, 130, 0.01)];
    let [read, _] = goodput(&wires, 7, false, 6, 4);
    assert!(read > 110.0, "{read} of 140 Mbit/s");
}
