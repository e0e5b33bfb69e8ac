//! The TCP proxy's connections: opened, carried, closed.

use std::{
    net::{IpAddr, SocketAddr},
    time::Instant,
};

use hawser_multipath::SendStream;
use hawser_wire::{
    flow::mix,
    proxy::{Kind, Message, Reason},
    tunnel::OwnAddresses,
};

use super::{
    request::{Connect, Open, StreamReady},
    state::Tunnel,
};
use crate::{
    config::{self, Class},
    path::PathId,
    proxy::{Flow, FlowId, MAX_WINDOW, Party, Proxy, Stage, Stream},
};

/// Messages waiting for a peer beyond which it is not told what was refused.
const MAX_WAITING_RESETS: usize = 8192;

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// Both directions have ended.
    Finished,
    /// It failed at this end; the peer is told.
    Failed(Reason),
    /// The peer has reset it, or is gone.
    PeerReset,
}

impl<S: Stream> Tunnel<S> {
    /// Number of the next stream passed to [`Self::handle_accepted`] or
    /// [`Self::handle_connecting`].
    #[must_use]
    pub fn next_stream(&self) -> usize {
        self.proxy.as_ref().map_or(0, Proxy::next_slot)
    }

    /// A client has connected: asks the peer to connect to the server. If that is impossible, the
    /// stream is dropped, which resets the connection.
    pub fn handle_accepted(
        &mut self,
        now: Instant,
        stream: S,
        (client, server): (SocketAddr, SocketAddr),
        class: Class,
    ) {
        let Some(place) = self.peers.index_by_address(server.ip()) else { return };
        let Some(index) = self.peers.choose(place, hash(client, server), class, now) else {
            return;
        };
        let Some(peer) = self.peers.get_mut(place) else { return };
        let (even, id) = (peer.we_connect, peer.config.id);
        let Some(group) = peer.groups.get_mut(index) else { return };
        let Some(proxy) = &mut self.proxy else { return };
        let party = Party { client: client.ip(), from: None };
        if group.proxy.peer.is_none() || !proxy.quotas.admits(party) {
            group.proxy.counters.refused += 1;
            return;
        }
        let number = group.proxy.numbers.allocate(even);
        let id = FlowId { peer: id, group: group.config.id, number };
        let flow = Flow::new(id, (client.ip(), class), Stage::Opening, stream, proxy.grant());
        group.proxy.send_control(&flow.open_message((client, server)));
        group.proxy.counters.opened += 1;
        group.proxy.flows += 1;
        group.active = true;
        proxy.insert(flow);
    }

    /// The next connection to open; its outcome is passed to [`Self::handle_connecting`].
    pub fn poll_connect(&mut self) -> Option<Connect> {
        while let Some(open) = self.opens.pop_front() {
            let Open { path, number, source, destination, window } = open;
            let even = self.peers.by_id(path.peer).is_some_and(|peer| !peer.we_connect);
            let may = self.may_connect(path.peer, source.ip(), destination.ip());
            let Some(group) = self.peers.group_mut(path.peer, path.group) else { continue };
            let Some(proxy) = &self.proxy else { continue };
            if !group.proxy.numbers.is_new(number, even) {
                continue;
            }
            let id = FlowId { peer: path.peer, group: path.group, number };
            let connect = Connect { id, window, source, destination };
            let party = Party { client: source.ip(), from: Some(path.peer) };
            match (may, proxy.quotas.admits(party)) {
                (false, _) => self.refuse(&connect, Reason::Denied),
                (_, false) => self.refuse(&connect, Reason::Full),
                _ => return Some(connect),
            }
        }
        None
    }

    /// A connection is being opened, or has failed. `class` is that of what the server sends.
    pub fn handle_connecting(
        &mut self,
        connect: &Connect,
        stream: Result<S, Reason>,
        class: Class,
    ) {
        let stream = match stream {
            Ok(stream) => stream,
            Err(reason) => return self.refuse(connect, reason),
        };
        let Connect { id, window, source, .. } = *connect;
        let Some(group) = self.peers.group_mut(id.peer, id.group) else { return };
        let Some(proxy) = &mut self.proxy else { return };
        let client = (source.ip(), class);
        let mut flow = Flow::new(id, client, Stage::Connecting, stream, proxy.grant());
        flow.send = SendStream::new(window.into());
        proxy.insert(flow);
        group.proxy.counters.opened += 1;
        group.proxy.flows += 1;
        group.active = true;
    }

    fn refuse(&mut self, connect: &Connect, reason: Reason) {
        let FlowId { peer, group, number } = connect.id;
        let Some(group) = self.peers.group_mut(peer, group) else { return };
        group.proxy.counters.refused += 1;
        if group.proxy.priority.len() >= MAX_WAITING_RESETS {
            return; // The peer gives up by itself.
        }
        group.proxy.send_control(&Message { flow: number, kind: Kind::Reset(reason) });
        group.active = true;
    }

    /// A peer connects only with a source behind it, and only to hosts that are behind no peer.
    fn may_connect(&self, peer: u16, source: IpAddr, destination: IpAddr) -> bool {
        let behind = |address| self.peers.get(self.peers.index_by_address(address)?);
        let Some(own) = self.proxy.as_ref().map(|proxy| proxy.own) else { return false };
        behind(source).is_some_and(|found| found.config.id == peer)
            && behind(destination).is_none()
            && source.is_ipv4() == destination.is_ipv4()
            && is_host(own, destination)
            && self.reach.is_host(destination)
    }

    /// A stream is ready.
    pub fn handle_stream(&mut self, slot: usize, ready: StreamReady) {
        let Some(proxy) = &mut self.proxy else { return };
        let Some(flow) = proxy.flow_mut(slot) else { return };
        flow.readable |= ready.readable;
        flow.writable |= ready.writable;
        if ready.failed
            && let Some(reason) = flow.stream.failure()
        {
            flow.failed = Some(reason);
        }
        if flow.stage == Stage::Connecting && ready.writable && flow.failed.is_none() {
            flow.stage = Stage::Open;
            let (message, id) = (flow.opened_message(), flow.id);
            if let Some(group) = self.peers.group_mut(id.peer, id.group) {
                group.proxy.send_control(&message);
                group.active = true;
            }
        }
        proxy.pending.push(slot);
        self.queue_if_sendable(slot);
    }

    /// Queues a connection that may have something to send.
    fn queue_if_sendable(&mut self, slot: usize) {
        let Some(flow) = self.proxy.as_mut().and_then(|proxy| proxy.flow_mut(slot)) else { return };
        if flow.queued || !flow.may_send() {
            return;
        }
        flow.queued = true;
        let id = flow.id;
        if let Some(group) = self.peers.group_mut(id.peer, id.group) {
            group.proxy.ready.push_back(slot);
            group.active = true;
        }
    }

    /// Handles received messages and services connections; returns whether there were any.
    pub(super) fn run_proxy(&mut self, now: Instant) -> bool {
        let Some(proxy) = &mut self.proxy else { return false };
        let received = std::mem::take(&mut proxy.received);
        for (path, bytes) in &received {
            self.handle_message(*path, bytes);
        }
        let Some(proxy) = &mut self.proxy else { return false };
        let mut pending = std::mem::take(&mut proxy.pending);
        pending.sort_unstable();
        pending.dedup();
        for slot in &pending {
            self.service_flow(*slot, now);
        }
        !(received.is_empty() && pending.is_empty())
    }

    fn handle_message(&mut self, path: PathId, bytes: &[u8]) {
        let Some(group) = self.peers.group_mut(path.peer, path.group) else { return };
        let Ok((Message { flow: number, kind }, payload)) = Message::parse(bytes) else {
            group.counters.drops.malformed += 1;
            return;
        };
        if let Kind::Open { source, destination, window } = kind {
            self.opens.push_back(Open { path, number, source, destination, window });
            return;
        }
        let id = FlowId { peer: path.peer, group: path.group, number };
        let Some(proxy) = &mut self.proxy else { return };
        let Some(slot) = proxy.slot(id) else {
            // The peer has opened a connection that was already abandoned here: if our reset
            // arrived first, the peer did not know the connection yet. Other late messages of ended
            // connections are ignored.
            if matches!(kind, Kind::Opened { .. }) && group.proxy.was_abandoned(number) {
                let kind = Kind::Reset(Reason::Reset);
                group.proxy.send_control(&Message { flow: number, kind });
                group.active = true;
            }
            return;
        };
        let Some(flow) = proxy.flow_mut(slot) else { return };
        match kind {
            Kind::Data { offset, end } => {
                if flow.recv.insert(offset, payload, end).is_err() {
                    flow.failed = Some(Reason::Violation);
                }
                proxy.pending.push(slot);
            }
            Kind::Opened { window } => {
                if flow.stage == Stage::Opening {
                    flow.stage = Stage::Open;
                    flow.send.raise_limit(window.into());
                    self.queue_if_sendable(slot);
                }
            }
            Kind::Credit { limit } => {
                flow.send.raise_limit(limit);
                self.queue_if_sendable(slot);
            }
            Kind::Reset(reason) => {
                if reason == Reason::Full && flow.stage == Stage::Opening {
                    proxy.peers_changed |= proxy.quotas.note_full(path.peer);
                }
                self.end_flow(slot, Ending::PeerReset);
            }
            Kind::Open { .. } => {}
        }
    }

    /// Delivers received bytes, grants credit, and ends the connection when it is done.
    fn service_flow(&mut self, slot: usize, now: Instant) {
        let Some(proxy) = &mut self.proxy else { return };
        let left = proxy.grantable();
        let Some(flow) = proxy.flow_mut(slot) else { return };
        if let Some(reason) = flow.failed {
            return self.end_flow(slot, Ending::Failed(reason));
        }
        let taken = match flow.drain() {
            Ok(taken) => taken,
            Err(reason) => return self.end_flow(slot, Ending::Failed(reason)),
        };
        let (id, before) = (flow.id, flow.recv.window());
        let max = MAX_WINDOW.min(before + left);
        let Some(group) = self.peers.group_mut(id.peer, id.group) else { return };
        group.proxy.counters.received_bytes += taken;
        if let Some(limit) = flow.recv.update_credit(now, group.proxy.rtt, max) {
            group.proxy.send_control(&Message { flow: id.number, kind: Kind::Credit { limit } });
            group.active = true;
        }
        let (done, after) = (flow.is_done(), flow.recv.window());
        proxy.granted += after - before;
        if done {
            self.end_flow(slot, Ending::Finished);
        }
    }

    /// A second has passed: ends connections that were not opened in time.
    pub(super) fn end_late_flows(&mut self) {
        let late = self.proxy.as_mut().map(Proxy::second).unwrap_or_default();
        for slot in late {
            self.end_flow(slot, Ending::Failed(Reason::TimedOut));
        }
    }

    /// Removes a connection.
    fn end_flow(&mut self, slot: usize, ending: Ending) {
        let Some(flow) = self.proxy.as_mut().and_then(|proxy| proxy.take(slot)) else { return };
        let Some(group) = self.peers.group_mut(flow.id.peer, flow.id.group) else { return };
        let queue = &mut group.proxy;
        queue.flows = queue.flows.saturating_sub(1);
        queue.ready.retain(|other| *other != slot);
        match ending {
            Ending::Finished => {
                queue.counters.ended += 1;
                flow.stream.finish();
            }
            Ending::Failed(reason) => {
                queue.counters.reset += 1;
                if flow.stage == Stage::Opening {
                    queue.abandon(flow.id.number);
                }
                queue.send_control(&flow.reset_message(reason));
                group.active = true;
            }
            Ending::PeerReset => queue.counters.reset += 1,
        }
    }

    /// Resets all connections of a group: the peer does not know them any more.
    pub(super) fn end_flows(&mut self, peer: u16, group: u8) {
        let Some(proxy) = &mut self.proxy else { return };
        proxy.peers_changed = true;
        for slot in proxy.all(|id| (id.peer, id.group) == (peer, group)) {
            self.end_flow(slot, Ending::PeerReset);
        }
        let Some(group) = self.peers.group_mut(peer, group) else { return };
        group.proxy.priority.clear();
        group.links_mut().for_each(|link| link.messages.forget());
    }

    /// Whether the set of peers that take part may have changed since the last call.
    pub fn proxy_peers_changed(&mut self) -> bool {
        self.proxy.as_mut().is_some_and(|proxy| std::mem::take(&mut proxy.peers_changed))
    }

    /// Clients that have too many connections, so that new ones go as datagrams.
    pub fn proxy_full_clients(&self) -> impl Iterator<Item = IpAddr> {
        self.proxy.iter().flat_map(|proxy| proxy.quotas.full_clients.iter().copied())
    }

    /// Peers that take part in the proxy and have room, with their own addresses.
    pub fn proxy_peers(&self) -> impl Iterator<Item = (&config::Peer, OwnAddresses)> + Clone {
        let takes = |peer: u16| self.proxy.as_ref().is_some_and(|proxy| proxy.quotas.takes(peer));
        let peers = self.peers.iter().filter(move |peer| takes(peer.config.id));
        peers.filter_map(|peer| {
            let own = peer.groups.iter().find_map(|group| group.proxy.peer)?;
            Some((&peer.config, own))
        })
    }
}

/// Whether an address may be that of a single host other than the gateway.
fn is_host(own: OwnAddresses, address: IpAddr) -> bool {
    let nobody = address.is_loopback() || address.is_multicast() || address.is_unspecified();
    let special = match address {
        IpAddr::V4(v4) => v4.is_broadcast() || own.v4 == Some(v4),
        IpAddr::V6(v6) => {
            v6.to_ipv4_mapped().is_some() || v6.is_unicast_link_local() || own.v6 == Some(v6)
        }
    };
    !(nobody || special)
}

fn hash(client: SocketAddr, server: SocketAddr) -> u64 {
    let half = |end: SocketAddr| match end.ip() {
        IpAddr::V4(address) => u64::from(address.to_bits()) << 16 | u64::from(end.port()),
        IpAddr::V6(address) => mix(
            u64::from(end.port()),
            address.segments().iter().fold(0, |sum, part| mix(sum, (*part).into())),
        ),
    };
    mix(half(client), half(server))
}
