//! What goes out: datagrams of connections.

use std::{
    net::{IpAddr, SocketAddr},
    time::Instant,
};

use super::state::Tunnel;
use crate::{group::Group, proxy::Stream};

/// Datagrams to be sent in one piece.
#[derive(Clone, Copy, Debug)]
pub struct Transmit<'a> {
    /// Number of the socket.
    pub socket: usize,
    /// Where to.
    pub destination: SocketAddr,
    /// The address to send it from, where that matters.
    pub source: Option<IpAddr>,
    /// ECN field.
    pub ecn: Option<u8>,
    /// Bytes of each datagram but the last; None: it is one.
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
    /// The next datagrams to be sent. What cannot be sent counts as lost on its path.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit<'_>> {
        loop {
            if let Some((socket, transmit, bytes)) = self.responses.pop_front() {
                self.response = bytes;
                return Some(Transmit::new(socket, &transmit, &self.response));
            }
            if let Some((socket, transmit)) = self.poll_links(now) {
                return Some(Transmit::new(socket, &transmit, self.batch.contents()));
            }
            // What packets and messages wait goes to connections before these send, so that it is in full datagrams,
            // behind what they have to acknowledge.
            let proxied = self.run_proxy(now);
            let scheduled = self.schedule(now);
            if !(self.collect(now) || scheduled || proxied) {
                return None;
            }
        }
    }

    /// Lets the connections send whose turn it is, and takes note of what has happened to them.
    fn poll_links(&mut self, now: Instant) -> Option<(usize, quinn_proto::Transmit)> {
        while let Some(at) = self.turns.front().copied() {
            let most = self.endpoints.get(&at.0).map_or(1, |endpoint| endpoint.max_batch);
            let mut batch = std::mem::take(&mut self.batch);
            let transmit = if let Some(link) = self.link_mut(at) {
                link.poll_transmit(now, most, &mut batch)
            } else {
                batch.clear();
                None
            };
            self.batch = batch;
            if let Some(transmit) = transmit {
                return Some((at.0, transmit));
            }
            self.turns.pop_front();
            self.attend(at, now);
        }
        None
    }

    /// Gives waiting packets and messages to the paths; whether there may be more.
    fn schedule(&mut self, now: Instant) -> bool {
        let mut more = false;
        for group in self.peers.groups_mut() {
            more |= group.schedule(self.proxy.as_mut(), now);
        }
        more
    }

    /// Finds the connections that may have something to send; whether there are any.
    fn collect(&mut self, now: Instant) -> bool {
        for link in self.peers.groups_mut().flat_map(Group::links_mut) {
            if link.active {
                link.fill(now);
                self.turns.push_back(link.at);
            }
        }
        for endpoint in self.endpoints.values() {
            self.turns.extend(endpoint.links().filter(|link| link.active).map(|link| link.at));
        }
        !self.turns.is_empty()
    }
}
