//! One proxied connection over paths in virtual time.

use std::time::{Duration, Instant};

use bytes::Bytes;
use hawser_multipath::{RecvStream, Scheduler, SendStream, View};
use hawser_wire::proxy::{Kind, Message};

use super::{
    FULL_PACKET,
    flows::{INITIAL_WINDOW, MAX_WINDOW},
};
use crate::path::{
    EncodedMessage, INNER_MTU, Link, MAX_DATAGRAM,
    simulation::{Gateway, Simulation, Wire},
};

const PACKET: u64 = 1200;

/// One end of the connection.
struct End {
    scheduler: Scheduler,
    send: SendStream,
    recv: RecvStream,
    /// Credit messages.
    priority: Vec<EncodedMessage>,
    sends: bool,
    read: u64,
}

impl End {
    fn new(sends: bool) -> Self {
        Self {
            scheduler: Scheduler::default(),
            send: SendStream::new(INITIAL_WINDOW),
            recv: RecvStream::new(INITIAL_WINDOW),
            priority: Vec::new(),
            sends,
            read: 0,
        }
    }

    /// The next message, of at most `max` bytes of the connection.
    fn next(&mut self, max: usize) -> Option<EncodedMessage> {
        if !self.priority.is_empty() {
            return Some(self.priority.remove(0));
        }
        let piece = self.send.next_chunk(1 << 20, false, max, FULL_PACKET)?;
        let kind = Kind::Data { offset: piece.offset, end: false };
        Some(EncodedMessage::new(&Message { flow: 0, kind }, vec![7; piece.len].into()))
    }

    /// Reads what has arrived and grants credit.
    fn read(&mut self, now: Instant, rtt: Duration) {
        let ready = self.recv.all_ready().map(<[u8]>::len).sum();
        self.recv.consume(ready);
        self.read += ready as u64;
        if let Some(limit) = self.recv.update_credit(now, rtt, MAX_WINDOW) {
            let kind = Kind::Credit { limit };
            self.priority.push(EncodedMessage::new(&Message { flow: 0, kind }, Bytes::new()));
        }
    }
}

impl Gateway for End {
    fn take(&mut self, bytes: Vec<u8>) {
        let (Message { kind, .. }, payload) = Message::parse(&bytes).unwrap();
        match kind {
            Kind::Data { offset, end } => self.recv.insert(offset, payload, end).unwrap(),
            Kind::Credit { limit } => self.send.raise_limit(limit),
            _ => unreachable!(),
        }
    }

    fn give(&mut self, now: Instant, links: &mut [&mut Link]) -> bool {
        let rtt = links.iter().filter_map(|link| link.path.get().rtt()).max();
        self.read(now, rtt.unwrap_or_default());
        let busy = links.iter().any(|link| link.messages.has_unacked());
        let leeway = if busy || self.sends { Link::wire_size(INNER_MTU.into()) } else { 0 };
        let mut views: Vec<View> = links.iter_mut().map(|link| link.view(now, leeway)).collect();
        let mut given = false;
        loop {
            let backlog = if self.sends { self.send.credit().min(1 << 20) } else { 0 };
            let backlog = backlog.max(u64::from(!self.priority.is_empty()));
            if backlog == 0 {
                return given;
            }
            let Some(choice) = self.scheduler.next(&views, backlog, PACKET, false) else {
                return given;
            };
            let worth = views[choice.path].rate.bytes(Duration::from_millis(4));
            let max = (worth / u64::from(MAX_DATAGRAM)).clamp(1, 16) as usize * FULL_PACKET;
            let Some(message) = self.next(max) else { return given };
            views[choice.path].sent(Link::wire_size(message.len() as u64));
            assert!(links[choice.path].send_message(message).is_ok());
            given = true;
        }
    }
}

/// Goodput of each side, Mbit/s, in `measured` seconds after a warm-up.
fn goodput(wires: &[Wire], seed: u64, both: bool, warmup: u64, measured: u64) -> [f64; 2] {
    let mut simulation = Simulation::new(wires, seed, [true, both].map(End::new));
    let begin = simulation.now + Duration::from_secs(warmup);
    simulation.run(begin);
    let before = simulation.gateways.each_ref().map(|end| end.read);
    simulation.run(begin + Duration::from_secs(measured));
    let after = simulation.gateways.each_ref().map(|end| end.read);
    [1, 0].map(|side| (after[side] - before[side]) as f64 * 8e-6 / measured as f64)
}

/// Two equal paths.
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

/// LTE and a satellite: what the latter loses arrives a quarter of a second late, and the burst of
/// its slow start queues long before the path is full.
#[test]
fn a_long_path_that_loses_packets_is_filled() {
    let wire = |mbps, delay, loss| Wire { mbps, delay: Duration::from_millis(delay), loss };
    let wires = [wire(40.0, 60, 0.0), wire(100.0, 130, 0.01)];
    let [read, _] = goodput(&wires, 7, false, 6, 4);
    assert!(read > 110.0, "{read} of 140 Mbit/s");
}
