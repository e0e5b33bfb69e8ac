//! Trains of packets that measure idle paths, on request (docs/design/path-program.md, Trains between gateways).

use std::{task::Poll, time::Instant};

use hawser_wire::{train::Message, tunnel::Capabilities};

use super::{state::Tunnel, trains::TrainRefused};
use crate::{
    group::Group,
    path::{Link, Observed, PathId, Train},
    proxy::Stream,
};

impl<S: Stream> Tunnel<S> {
    /// Begins to send a train on a path; [`Self::poll_train`] then gives what became of it, with the
    /// number that this returns. `port_bps` is the rate of the path's port.
    ///
    /// # Errors
    /// It is not sent.
    pub fn start_train(
        &mut self,
        now: Instant,
        path: PathId,
        train: Train,
        port_bps: u64,
    ) -> Result<u32, TrainRefused> {
        let port = self.config.path(path).and_then(|path| path.local);
        let port = port.ok_or(TrainRefused::NoPath)?;
        let has_work = self.peers.iter().flat_map(|peer| &peer.groups).any(Group::has_work);
        let group = self.peers.group_mut(path.peer, path.group).ok_or(TrainRefused::NoPath)?;
        let takes = group.takes(Capabilities::TRAINS);
        let link = group.link_mut(path.member).filter(|link| !link.relayed);
        let link = link.ok_or(TrainRefused::NoPath)?;
        if !takes {
            return Err(TrainRefused::Unsupported);
        }
        if link.trains.is_sending() {
            return Err(TrainRefused::Busy);
        }
        if has_work || link.messages.has_unacked() {
            return Err(TrainRefused::Loaded);
        }
        if !self.trains.spend(port, port_bps, train.bits(), now) {
            return Err(TrainRefused::Limit);
        }
        self.trains.last = self.trains.last.wrapping_add(1);
        let number = self.trains.last;
        if let Some(link) = self.train_link(path) {
            link.start_train(number, train, now);
        }
        self.trains.running.push((path, number));
        self.trains.next = Some(now);
        Ok(number)
    }

    /// A train that is over: its number, and what became of it; None if the peer did not answer.
    pub fn poll_train(&mut self) -> Option<(u32, Option<Observed>)> {
        self.trains.over.pop_front()
    }

    fn train_link(&mut self, path: PathId) -> Option<&mut Link> {
        self.peers.group_mut(path.peer, path.group)?.link_mut(path.member)
    }

    /// Sends what is due of trains.
    pub(super) fn run_trains(&mut self, now: Instant) {
        let mut next = None;
        for (path, number) in std::mem::take(&mut self.trains.running) {
            // A new connection knows nothing of the train of the one before.
            let link = self.train_link(path).filter(|link| link.trains.is_sending());
            match link.map(|link| (link.run_train(now), link.trains.poll_timeout())) {
                None => self.trains.over.push_back((number, None)),
                Some((Poll::Ready(observed), _)) => self.trains.over.push_back((number, observed)),
                Some((Poll::Pending, at)) => {
                    next = at.into_iter().chain(next).min();
                    self.trains.running.push((path, number));
                }
            }
        }
        self.trains.next = next;
    }

    /// Handles the messages that have been received.
    pub(super) fn handle_trains(&mut self, now: Instant) {
        for (from, datagram) in std::mem::take(&mut self.trains.received) {
            self.handle_train(from, &datagram, now);
        }
    }

    fn handle_train(&mut self, from: PathId, datagram: &[u8], now: Instant) {
        let Some(group) = self.peers.group_mut(from.peer, from.group) else { return };
        match Message::parse(datagram) {
            Some(Ok(message)) => {
                let is_report = matches!(message, Message::Report { .. });
                if let Some(link) = group.link_mut(from.member) {
                    link.take_of_train(message, now);
                }
                if is_report && !self.trains.running.is_empty() {
                    self.trains.next = Some(now);
                }
            }
            Some(Err(_)) => group.counters.drops.malformed += 1,
            None => {}
        }
    }
}
