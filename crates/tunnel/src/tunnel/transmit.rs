//! Output: datagrams of connections.

use std::{
    net::{IpAddr, SocketAddr},
    time::Instant,
};

use super::state::Tunnel;
use crate::proxy::Stream;

/// A GSO batch of datagrams to send.
#[derive(Clone, Copy, Debug)]
pub struct Transmit<'a> {
    /// Number of the socket.
    pub socket: usize,
    /// Destination.
    pub destination: SocketAddr,
    /// Source address, if it matters.
    pub source: Option<IpAddr>,
    /// ECN field.
    pub ecn: Option<u8>,
    /// Length of each datagram but the last; None if there is only one.
    pub segment_size: Option<usize>,
    /// The datagrams.
    pub contents: &'a [u8],
}

impl<'a> Transmit<'a> {
    fn new(socket: usize, transmit: &quinn_proto::Transmit, contents: &'a [u8]) -> Self {
        Self {
            socket,
            destination: transmit.destination,
            source: transmit.src_ip,
            ecn: transmit.ecn.map(|ecn| ecn as u8),
            segment_size: transmit.segment_size,
            contents: contents.get(..transmit.size).unwrap_or_default(),
        }
    }
}

impl<S: Stream> Tunnel<S> {
    /// The next datagrams. What cannot be sent counts as lost on its path.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit<'_>> {
        loop {
            if let Some((socket, transmit, bytes)) = self.responses.pop_front() {
                if let Some(path) = self.relayed_path(socket) {
                    let datagram = bytes.get(..transmit.size).unwrap_or_default();
                    self.send_relayed(path, datagram, transmit.size, now);
                    continue;
                }
                self.response = bytes;
                return Some(Transmit::new(socket, &transmit, &self.response));
            }
            if let Some((socket, transmit)) = self.poll_links(now) {
                return Some(Transmit::new(socket, &transmit, self.batch.contents()));
            }
            // Queued packets and messages go to connections before these send, so that datagrams
            // are full and carry pending acknowledgements.
            let proxied = self.run_proxy(now);
            let scheduled = self.schedule(now);
            if !(self.collect_active(now) || scheduled || proxied) {
                return None;
            }
        }
    }

    /// Lets connections send in turn, and handles their events.
    fn poll_links(&mut self, now: Instant) -> Option<(usize, quinn_proto::Transmit)> {
        while let Some(at) = self.send_queue.front().copied() {
            let max = self.endpoints.get(&at.0).map_or(1, |endpoint| endpoint.max_batch);
            let mut batch = std::mem::take(&mut self.batch);
            let transmit = if let Some(link) = self.link_mut(at) {
                link.poll_transmit(now, max, &mut batch)
            } else {
                batch.clear();
                None
            };
            self.batch = batch;
            if let Some(transmit) = transmit {
                let Some(path) = self.relayed_path(at.0) else { return Some((at.0, transmit)) };
                let batch = std::mem::take(&mut self.batch);
                let datagrams = batch.contents().get(..transmit.size).unwrap_or_default();
                let one = transmit.segment_size.unwrap_or(transmit.size);
                self.send_relayed(path, datagrams, one, now);
                self.batch = batch;
                continue;
            }
            self.send_queue.pop_front();
            self.poll_connection(at, now);
        }
        None
    }

    /// Hands queued packets and messages to the paths; returns whether more may follow.
    fn schedule(&mut self, now: Instant) -> bool {
        let mut more = false;
        for group in self.peers.groups_mut() {
            more |= group.schedule(self.proxy.as_mut(), &mut self.limits, now);
        }
        more
    }

    /// Queues connections that may have something to send; returns whether there are any.
    fn collect_active(&mut self, now: Instant) -> bool {
        for link in self.peers.groups_mut().flat_map(|group| group.members.take_active()) {
            link.send_padding(now);
            self.send_queue.push_back(link.at);
        }
        let others = self.unowned.values().filter(|link| link.active);
        self.send_queue.extend(others.map(|link| link.at));
        !self.send_queue.is_empty()
    }
}
