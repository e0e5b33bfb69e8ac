//! What paths lose goes again (docs/adr/0136).

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;
use hawser_multipath::{Kept, State, UnderWay};
use hawser_wire::tunnel::Form;

use super::{Quic, TICK, group::Group, socket::Place};

/// A packet that was neither acknowledged nor lost for so long belongs to an address that we no longer have.
const FORGOTTEN: Duration = Duration::from_secs(1);

/// Paths are looked at so much later than they may be silent: others are to have answered by then.
const LATER: Duration = Duration::from_millis(2);

/// An inner packet that is kept: with its header, as it went.
pub(super) struct Inner {
    pub(super) datagram: Bytes,
    pub(super) form: Form,
    pub(super) unsummed: bool,
}

/// The packets under way on a path, by when the connection sent them: it says no more of a packet that came, or of
/// the last one that is lost. No two packets leave at the same moment.
#[derive(Clone, Default)]
pub(super) struct Ledger(Arc<Mutex<Entries>>);

impl std::fmt::Debug for Ledger {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Ledger")
    }
}

#[derive(Default)]
struct Entries {
    under_way: UnderWay<Instant, Inner>,
    news: News,
}

/// What became of packets.
#[derive(Default)]
pub(super) struct News {
    /// Came, by flow and number.
    came: Vec<(u16, u32)>,
    lost: Vec<Kept<Inner>>,
    given_up: Vec<(u16, u32)>,
}

fn name(packet: &Kept<Inner>) -> (u16, u32) {
    (packet.flow, packet.sequence)
}

impl Ledger {
    fn get(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn sent(&self, at: Instant, packet: Kept<Inner>) {
        let Entries { under_way, news } = &mut *self.get();
        under_way.sent(at, packet, |old| news.given_up.push(name(&old)));
    }

    pub(super) fn acked(&self, sent: Instant) {
        let Entries { under_way, news } = &mut *self.get();
        under_way.acked(sent, |packet| news.came.push(name(&packet)));
    }

    /// What was sent up to then and has not come is lost.
    pub(super) fn lost(&self, sent: Instant) {
        let Entries { under_way, news } = &mut *self.get();
        under_way.lost(sent, |packet| news.lost.push(packet));
    }

    /// The connection did not send a packet.
    pub(super) fn not_sent(&self, packet: Kept<Inner>) {
        self.get().news.lost.push(packet);
    }

    /// Nothing that is under way will come.
    pub(super) fn give_up(&self) {
        let Entries { under_way, news } = &mut *self.get();
        news.lost.extend(under_way.take_all());
    }

    pub(super) fn news(&self) -> News {
        std::mem::take(&mut self.get().news)
    }
}

impl Group {
    /// Takes note of what became of packets.
    pub(super) fn recover(&mut self, now: Instant, news: News) {
        let News { came, lost, given_up } = news;
        self.counters.recovery.given_up += given_up.len() as u64;
        if let Some(compressor) = &mut self.compressor {
            for (flow, sequence) in &came {
                compressor.came(*flow, *sequence);
            }
        }
        for (flow, sequence) in came.into_iter().chain(given_up) {
            self.sequencer.settle(flow, sequence);
        }
        for packet in lost {
            if let Some(late) = self.recovery.add(now, packet) {
                self.counters.recovery.given_up += 1;
                self.sequencer.settle(late.flow, late.sequence);
            }
        }
        for late in self.recovery.expire(now) {
            self.counters.recovery.given_up += 1;
            self.sequencer.settle(late.flow, late.sequence);
        }
        self.active |= self.has_work();
    }
}

impl Quic {
    /// What was given to paths that have become silent goes on others, if there are any; says when to look again.
    pub(super) fn recover_silent(&mut self, now: Instant) -> Instant {
        let heard = self.heard();
        let mut places: Vec<(Place, State)> = Vec::new();
        let mut next = now + TICK;
        for link in self.sockets.values().flat_map(|socket| socket.links.values()) {
            let Some(place) = link.place.filter(|_| link.up) else { continue };
            let mut path = link.path.get();
            path.note_group_heard(heard.get(&(place.peer, place.group)).copied());
            next = path.silent_at(now).map_or(next, |at| next.min(at + LATER));
            places.push((place, path.state(now)));
        }
        for link in self.sockets.values().flat_map(|socket| socket.links.values()) {
            let Some(place) = link.place.filter(|_| link.up) else { continue };
            let other = |(other, state): &(Place, State)| {
                (other.peer, other.group) == (place.peer, place.group) && *state == State::Up
            };
            let ledger = link.path.ledger();
            if let Some(old) = now.checked_sub(FORGOTTEN) {
                ledger.lost(old);
            }
            let silent = matches!(link.path.get().state(now), State::Degraded | State::Down);
            if silent && places.iter().any(other) {
                ledger.give_up();
            }
            let news = ledger.news();
            let peer = self.peers.get_mut(&place.peer);
            if let Some(group) = peer.and_then(|peer| peer.groups.get_mut(&place.group)) {
                group.recover(now, news);
            }
        }
        next
    }

    /// When a path of each group of each peer last answered.
    fn heard(&self) -> BTreeMap<(u16, u8), Instant> {
        let mut heard = BTreeMap::new();
        for link in self.sockets.values().flat_map(|socket| socket.links.values()) {
            if let Some(place) = link.place
                && let Some(at) = link.path.get().heard()
            {
                let last = heard.entry((place.peer, place.group)).or_insert(at);
                *last = at.max(*last);
            }
        }
        heard
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::quic::{
        link::Link,
        simulation::{Gateway, Simulation, Wire},
    };

    /// Sends datagrams with numbers, and takes note of those that come and of what is told of those that it sent.
    #[derive(Default)]
    struct Numbers {
        most: u32,
        /// Whether what silent paths have is given up.
        gives_up: bool,
        /// Bytes of the shortest; 1000 more has the longest.
        least: usize,
        /// Of so many, the first is not kept; 0: all are.
        turn: u32,
        sent: u32,
        received: BTreeSet<u32>,
        came: Vec<u32>,
        lost: Vec<u32>,
    }

    impl Gateway for Numbers {
        fn take(&mut self, bytes: Vec<u8>) {
            let number = u32::from_be_bytes(bytes[..4].try_into().unwrap());
            assert!(self.received.insert(number), "{number} came twice");
        }

        fn give(&mut self, now: Instant, links: &mut [&mut Link]) -> bool {
            let mut given = false;
            for link in links {
                let silent = matches!(link.path.get().state(now), State::Degraded | State::Down);
                if self.gives_up && silent {
                    link.path.ledger().give_up();
                }
                // Of odd lengths, so that not all fill a packet, and some share one.
                while self.sent < self.most && link.view(now, 0).room > 1500 {
                    let len = self.least + (self.sent as usize * 37) % 1000;
                    let mut datagram = self.sent.to_be_bytes().to_vec();
                    datagram.resize(len, 0);
                    let datagram = Bytes::from(datagram);
                    let item =
                        Inner { datagram: datagram.clone(), form: Form::Plain, unsummed: false };
                    let (sequence, len) = (self.sent, 1);
                    let kept = Kept { flow: 0, sequence, len, since: now, item };
                    let kept = (self.turn == 0 || sequence % self.turn > 0).then_some(kept);
                    if !link.give(datagram, kept) {
                        break;
                    }
                    self.sent += 1;
                    given = true;
                }
                let News { came, lost, given_up } = link.news();
                assert_eq!(given_up, []);
                self.came.extend(came.iter().map(|(_, sequence)| sequence));
                self.lost.extend(lost.iter().map(|packet| packet.sequence));
            }
            given
        }
    }

    /// What is told of each datagram, once: that it came if it did, or else that it is lost.
    #[test]
    fn every_datagram_is_told_of_as_it_fared() {
        let delay = Duration::from_millis(20);
        for (loss, turn) in [(0.0, 0), (0.01, 0), (0.1, 0), (0.1, 3), (0.1, 10)] {
            let wires = [Wire { mbps: 10.0, delay, loss }; 2];
            let sender = Numbers { most: 4000, least: 100, turn, ..Numbers::default() };
            let mut simulation = Simulation::new(&wires, 9, [sender, Numbers::default()]);
            simulation.run(simulation.now + Duration::from_secs(20));
            let [sender, receiver] = &simulation.gateways;
            let mut told: Vec<_> = sender.came.iter().chain(&sender.lost).copied().collect();
            told.sort_unstable();
            let kept = (0..4000).filter(|n| turn == 0 || n % turn > 0);
            assert_eq!(told, kept.collect::<Vec<_>>(), "with a loss of {loss}");
            let gone: Vec<_> =
                sender.came.iter().filter(|n| !receiver.received.contains(n)).collect();
            assert!(gone.is_empty(), "with a loss of {loss}, told to have come: {gone:?}");
            let late: Vec<_> =
                sender.lost.iter().filter(|n| receiver.received.contains(n)).collect();
            assert!(late.is_empty(), "with a loss of {loss}, told to be lost: {late:?}");
            assert!(loss > 0.0 || sender.lost.is_empty());
        }
    }

    /// The same where a path is cut again and again; what it has not acknowledged by then may have come.
    #[test]
    fn nothing_is_forgotten_when_a_path_is_cut() {
        let wires = [Wire { mbps: 10.0, delay: Duration::from_millis(10), loss: 0.0 }; 2];
        for least in [100, 420] {
            let sender = Numbers { most: 60_000, least, gives_up: true, ..Numbers::default() };
            let mut simulation = Simulation::new(&wires, 5, [sender, Numbers::default()]);
            for turn in 0..40 {
                simulation.run(simulation.now + Duration::from_millis(700 + turn));
                simulation.cut(0, turn % 2 == 0);
            }
            simulation.gateways[0].most = simulation.gateways[0].sent;
            simulation.run(simulation.now + Duration::from_secs(5));
            let [sender, receiver] = &simulation.gateways;
            let told: BTreeSet<u32> = sender.came.iter().chain(&sender.lost).copied().collect();
            assert_eq!(told.len(), sender.sent as usize);
            let gone: Vec<_> =
                sender.came.iter().filter(|n| !receiver.received.contains(n)).collect();
            assert!(gone.is_empty(), "told to have come: {gone:?}");
        }
    }
}
