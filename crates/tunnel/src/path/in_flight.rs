//! Retransmittable packets in flight on a path, and their outcomes (docs/design/retransmission.md).

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use bytes::Bytes;
use hawser_multipath::{Retransmittable, SentPackets};
use hawser_wire::tunnel::Form;

use super::fragment_outcomes::FragmentOutcomes;

/// Copy of an inner packet with its header, as sent.
#[derive(Clone)]
pub(crate) struct Stored {
    pub(crate) datagram: Bytes,
    pub(crate) form: Form,
    pub(crate) checksum_omitted: bool,
    /// If it is in fragments, of which this is one.
    pub(crate) fragments: Option<FragmentOutcomes>,
}

impl Stored {
    /// It was acknowledged; returns whether all of it was.
    fn on_acked(&self) -> bool {
        self.fragments.as_ref().is_none_or(FragmentOutcomes::on_acked)
    }

    /// It was lost; returns whether that is news.
    fn on_lost(&self) -> bool {
        self.fragments.as_ref().is_none_or(FragmentOutcomes::on_lost)
    }
}

/// Retransmittable packets in flight on a path, keyed by send time: quinn reports no more of an
/// acknowledged packet, or of the latest lost one. Send times are unique. Shared with the
/// congestion controller on the same thread.
#[derive(Clone, Default)]
pub(crate) struct InFlight(Arc<Mutex<Entries>>);

impl std::fmt::Debug for InFlight {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("InFlight")
    }
}

#[derive(Default)]
struct Entries {
    sent_packets: SentPackets<Instant, Stored>,
    outcomes: Outcomes,
}

/// Outcomes since the last query.
#[derive(Default)]
pub(crate) struct Outcomes {
    /// Acknowledged, by flow and sequence number.
    pub(crate) acked: Vec<(u16, u32)>,
    pub(crate) lost: Vec<Retransmittable<Stored>>,
    /// Removed for want of memory.
    pub(crate) abandoned: Vec<(u16, u32)>,
}

impl Outcomes {
    /// Of a datagram in fragments, the first that is lost counts.
    fn note_lost(&mut self, packet: Retransmittable<Stored>) {
        if packet.item.on_lost() {
            self.lost.push(packet);
        }
    }
}

/// Flow and sequence number of a packet.
fn name(packet: &Retransmittable<Stored>) -> (u16, u32) {
    (packet.flow, packet.sequence)
}

impl InFlight {
    fn get(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn sent(&self, at: Instant, packet: Retransmittable<Stored>) {
        let Entries { sent_packets, outcomes } = &mut *self.get();
        sent_packets.sent(at, packet, |old| outcomes.abandoned.push(name(&old)));
    }

    pub(crate) fn acked(&self, sent: Instant) {
        let Entries { sent_packets, outcomes } = &mut *self.get();
        sent_packets.acked(sent, |packet| {
            if packet.item.on_acked() {
                outcomes.acked.push(name(&packet));
            }
        });
    }

    /// Packets sent up to this time that were not acknowledged are lost.
    pub(crate) fn lost(&self, sent: Instant) {
        let Entries { sent_packets, outcomes } = &mut *self.get();
        sent_packets.lost(sent, |packet| outcomes.note_lost(packet));
    }

    /// The connection dropped a packet without sending it.
    pub(crate) fn not_sent(&self, packet: Retransmittable<Stored>) {
        self.get().outcomes.note_lost(packet);
    }

    /// Declares everything in flight lost.
    pub(crate) fn declare_all_lost(&self) {
        let Entries { sent_packets, outcomes } = &mut *self.get();
        sent_packets.take_all().for_each(|packet| outcomes.note_lost(packet));
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

    /// Sends numbered datagrams, and records which arrive and which outcomes are reported.
    #[derive(Default)]
    struct Numbers {
        max: u32,
        /// Whether packets on silent paths are declared lost.
        gives_up: bool,
        /// Length of the shortest datagram, bytes; the longest has 1000 more.
        least: usize,
        /// One in so many is not retransmittable; 0: all are.
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
                // Varying lengths: some datagrams fill a packet, some share one.
                while self.sent < self.max && link.view(now, 0).available_window > 1500 {
                    let len = self.least + (self.sent as usize * 37) % 1000;
                    let mut datagram = self.sent.to_be_bytes().to_vec();
                    datagram.resize(len, 0);
                    let datagram = Bytes::from(datagram);
                    let item = Stored {
                        datagram: datagram.clone(),
                        form: Form::Plain,
                        checksum_omitted: false,
                        fragments: None,
                    };
                    let (sequence, len) = (self.sent, 1);
                    let kept = Retransmittable { flow: 0, sequence, len, first_sent: now, item };
                    let kept = (self.turn == 0 || sequence % self.turn > 0).then_some(kept);
                    if !link.send(datagram, kept) {
                        break;
                    }
                    self.sent += 1;
                    given = true;
                }
                let Outcomes { acked, lost, abandoned } = link.outcomes();
                assert_eq!(abandoned, []);
                self.came.extend(acked.iter().map(|(_, sequence)| sequence));
                self.lost.extend(lost.iter().map(|packet| packet.sequence));
            }
            given
        }
    }

    /// Each datagram is reported once: as acknowledged if it arrived, otherwise as lost.
    #[test]
    fn every_datagram_has_one_outcome() {
        let delay = Duration::from_millis(20);
        for (loss, turn) in [(0.0, 0), (0.01, 0), (0.1, 0), (0.1, 3), (0.1, 10)] {
            let wires = [Wire { mbps: 10.0, delay, loss }; 2];
            let sender = Numbers { max: 4000, least: 100, turn, ..Numbers::default() };
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

    /// The same while a path is cut repeatedly; packets reported lost may have arrived.
    #[test]
    fn every_datagram_has_an_outcome_when_a_path_is_cut() {
        let wires = [Wire { mbps: 10.0, delay: Duration::from_millis(10), loss: 0.0 }; 2];
        for least in [100, 420] {
            let sender = Numbers { max: 60_000, least, gives_up: true, ..Numbers::default() };
            let mut simulation = Simulation::new(&wires, 5, [sender, Numbers::default()]);
            for turn in 0..40 {
                simulation.run(simulation.now + Duration::from_millis(700 + turn));
                simulation.cut(0, turn % 2 == 0);
            }
            simulation.gateways[0].max = simulation.gateways[0].sent;
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
