//! Retransmittable packets in flight on a path, and what became of them (docs/design/retransmission.md).

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use bytes::Bytes;
use hawser_multipath::{Kept, UnderWay};
use hawser_wire::tunnel::Form;

/// A copy of an inner packet behind its header, as it was sent.
pub(crate) struct Stored {
    pub(crate) datagram: Bytes,
    pub(crate) form: Form,
    pub(crate) unsummed: bool,
}

/// Retransmittable packets in flight on a path, by the time at which the connection sent them: its congestion
/// controller is told no more of a packet that was acknowledged, or of the last one that is lost. No two packets are
/// sent at the same time. Shared with that controller, on the same thread.
#[derive(Clone, Default)]
pub(crate) struct InFlight(Arc<Mutex<Entries>>);

impl std::fmt::Debug for InFlight {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("InFlight")
    }
}

#[derive(Default)]
struct Entries {
    under_way: UnderWay<Instant, Stored>,
    outcomes: Outcomes,
}

/// What became of packets since it was last asked.
#[derive(Default)]
pub(crate) struct Outcomes {
    /// Acknowledged, by flow and number.
    pub(crate) acked: Vec<(u16, u32)>,
    pub(crate) lost: Vec<Kept<Stored>>,
    /// Not stored any more: there was no room.
    pub(crate) given_up: Vec<(u16, u32)>,
}

fn name(packet: &Kept<Stored>) -> (u16, u32) {
    (packet.flow, packet.sequence)
}

impl InFlight {
    fn get(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn sent(&self, at: Instant, packet: Kept<Stored>) {
        let Entries { under_way, outcomes } = &mut *self.get();
        under_way.sent(at, packet, |old| outcomes.given_up.push(name(&old)));
    }

    pub(crate) fn acked(&self, sent: Instant) {
        let Entries { under_way, outcomes } = &mut *self.get();
        under_way.acked(sent, |packet| outcomes.acked.push(name(&packet)));
    }

    /// What was sent up to then and was not acknowledged is lost.
    pub(crate) fn lost(&self, sent: Instant) {
        let Entries { under_way, outcomes } = &mut *self.get();
        under_way.lost(sent, |packet| outcomes.lost.push(packet));
    }

    /// The connection did not send a packet.
    pub(crate) fn not_sent(&self, packet: Kept<Stored>) {
        self.get().outcomes.lost.push(packet);
    }

    /// Declares everything lost that is in flight.
    pub(crate) fn declare_all_lost(&self) {
        let Entries { under_way, outcomes } = &mut *self.get();
        outcomes.lost.extend(under_way.take_all());
    }

    pub(crate) fn take_outcomes(&self) -> Outcomes {
        std::mem::take(&mut self.get().outcomes)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use std::time::Duration;

    use hawser_multipath::State;

    use super::*;
    use crate::path::{
        Link,
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
                    link.path.in_flight().declare_all_lost();
                }
                // Of odd lengths, so that not all fill a packet, and some share one.
                while self.sent < self.most && link.view(now, 0).room > 1500 {
                    let len = self.least + (self.sent as usize * 37) % 1000;
                    let mut datagram = self.sent.to_be_bytes().to_vec();
                    datagram.resize(len, 0);
                    let datagram = Bytes::from(datagram);
                    let item =
                        Stored { datagram: datagram.clone(), form: Form::Plain, unsummed: false };
                    let (sequence, len) = (self.sent, 1);
                    let kept = Kept { flow: 0, sequence, len, since: now, item };
                    let kept = (self.turn == 0 || sequence % self.turn > 0).then_some(kept);
                    if !link.send(datagram, kept) {
                        break;
                    }
                    self.sent += 1;
                    given = true;
                }
                let Outcomes { acked, lost, given_up } = link.outcomes();
                assert_eq!(given_up, []);
                self.came.extend(acked.iter().map(|(_, sequence)| sequence));
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
