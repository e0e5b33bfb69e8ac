//! The TCP proxy's part: connections begin, carry messages, and end.

use std::{
    net::{IpAddr, SocketAddr},
    time::Instant,
};

use hawser_multipath::Outbound;
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
    proxy::{Flow, FlowId, MOST_WINDOW, Stage, Stream},
};

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// Both ends have.
    Finished,
    /// The end here has reset it, or worse: the peer is told.
    Failed(Reason),
    /// The peer has said so, or is gone.
    Gone,
}

impl<S: Stream> Tunnel<S> {
    /// The number that the next stream will have, of [`Self::handle_accepted`] or [`Self::handle_connecting`].
    #[must_use]
    pub fn next_stream(&self) -> usize {
        self.proxy.as_ref().map_or(0, crate::proxy::Proxy::next_slot)
    }

    /// A client has connected: asks the peer to connect to whom it wants. Where that cannot be, the
    /// connection is reset by being dropped.
    pub fn handle_accepted(
        &mut self,
        now: Instant,
        stream: S,
        (client, server): (SocketAddr, SocketAddr),
        class: Class,
    ) {
        let Some(place) = self.peers.behind(server.ip()) else { return };
        let Some(index) = self.peers.choose(place, hash(client, server), class, now) else {
            return;
        };
        let Some(peer) = self.peers.get_mut(place) else { return };
        let (even, id) = (peer.we_connect, peer.config.id);
        let Some(group) = peer.groups.get_mut(index) else { return };
        let Some(proxy) = &mut self.proxy else { return };
        if group.proxy.peer.is_none() || proxy.is_full() {
            group.proxy.counters.refused += 1;
            return;
        }
        let number = group.proxy.numbers.ours(even);
        let id = FlowId { peer: id, group: group.config.id, number };
        let flow = Flow::new(id, Stage::Opening, stream, proxy.grant());
        group.proxy.send_control(&flow.ask((client, server)));
        group.proxy.counters.opened += 1;
        group.proxy.flows += 1;
        group.active = true;
        proxy.insert(flow);
    }

    /// The next connection that is to be made; [`Self::handle_connecting`] is to be told what came of it.
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
            match (may, proxy.is_full()) {
                (false, _) => self.refuse(&connect, Reason::Denied),
                (_, true) => self.refuse(&connect, Reason::Full),
                _ => return Some(connect),
            }
        }
        None
    }

    /// A connection is being made, or cannot be.
    pub fn handle_connecting(&mut self, connect: &Connect, stream: Result<S, Reason>) {
        let stream = match stream {
            Ok(stream) => stream,
            Err(reason) => return self.refuse(connect, reason),
        };
        let Connect { id, window, .. } = *connect;
        let Some(group) = self.peers.group_mut(id.peer, id.group) else { return };
        let Some(proxy) = &mut self.proxy else { return };
        let mut flow = Flow::new(id, Stage::Connecting, stream, proxy.grant());
        flow.outbound = Outbound::new(window.into());
        proxy.insert(flow);
        group.proxy.counters.opened += 1;
        group.proxy.flows += 1;
        group.active = true;
    }

    fn refuse(&mut self, connect: &Connect, reason: Reason) {
        let FlowId { peer, group, number } = connect.id;
        let Some(group) = self.peers.group_mut(peer, group) else { return };
        group.proxy.send_control(&Message { flow: number, kind: Kind::Reset(reason) });
        group.proxy.counters.refused += 1;
        group.active = true;
    }

    /// A peer connects only as somebody behind it, and only to hosts that are not behind a peer.
    fn may_connect(&self, peer: u16, source: IpAddr, destination: IpAddr) -> bool {
        let behind = |address| self.peers.get(self.peers.behind(address)?);
        let Some(own) = self.proxy.as_ref().map(|proxy| proxy.own) else { return false };
        behind(source).is_some_and(|found| found.config.id == peer)
            && behind(destination).is_none()
            && source.is_ipv4() == destination.is_ipv4()
            && is_host(own, destination)
    }

    /// Something has happened to a stream.
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
            let (message, id) = (flow.confirm(), flow.id);
            if let Some(group) = self.peers.group_mut(id.peer, id.group) {
                group.proxy.send_control(&message);
                group.active = true;
            }
        }
        proxy.dirty.push(slot);
        self.may_send(slot);
    }

    /// A connection may have something to send: it gets its turn.
    fn may_send(&mut self, slot: usize) {
        let Some(flow) = self.proxy.as_mut().and_then(|proxy| proxy.flow_mut(slot)) else { return };
        if flow.queued || !flow.may_send() {
            return;
        }
        flow.queued = true;
        let id = flow.id;
        if let Some(group) = self.peers.group_mut(id.peer, id.group) {
            group.proxy.turns.push_back(slot);
            group.active = true;
        }
    }

    /// Takes the messages that have come, and looks after connections; whether there were any.
    pub(super) fn run_proxy(&mut self, now: Instant) -> bool {
        let Some(proxy) = &mut self.proxy else { return false };
        let received = std::mem::take(&mut proxy.received);
        for (path, bytes) in &received {
            self.take_message(*path, bytes);
        }
        let Some(proxy) = &mut self.proxy else { return false };
        let mut dirty = std::mem::take(&mut proxy.dirty);
        dirty.sort_unstable();
        dirty.dedup();
        for slot in &dirty {
            self.look_after(*slot, now);
        }
        !(received.is_empty() && dirty.is_empty())
    }

    fn take_message(&mut self, path: PathId, bytes: &[u8]) {
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
            // The peer has opened a connection that may have been given up here before: if the word of that came
            // first, the peer knew nothing of it then. Other late messages of connections that have ended are
            // nothing new.
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
                if flow.inbound.insert(offset, payload, end).is_err() {
                    flow.failed = Some(Reason::Violation);
                }
                proxy.dirty.push(slot);
            }
            Kind::Opened { window } => {
                if flow.stage == Stage::Opening {
                    flow.stage = Stage::Open;
                    flow.outbound.allow(window.into());
                    self.may_send(slot);
                }
            }
            Kind::Credit { limit } => {
                flow.outbound.allow(limit);
                self.may_send(slot);
            }
            Kind::Reset(_) => self.end_flow(slot, Ending::Gone),
            Kind::Open { .. } => {}
        }
    }

    /// Hands on what has come for a connection, and ends it when it is time.
    fn look_after(&mut self, slot: usize, now: Instant) {
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
        let (id, before) = (flow.id, flow.inbound.window());
        let most = MOST_WINDOW.min(before + left);
        let Some(group) = self.peers.group_mut(id.peer, id.group) else { return };
        group.proxy.counters.received_bytes += taken;
        if let Some(limit) = flow.inbound.credit(now, group.proxy.round_trip, most) {
            group.proxy.send_control(&Message { flow: id.number, kind: Kind::Credit { limit } });
            group.active = true;
        }
        let (done, after) = (flow.is_done(), flow.inbound.window());
        proxy.granted += after - before;
        if done {
            self.end_flow(slot, Ending::Finished);
        }
    }

    /// A connection is no more.
    fn end_flow(&mut self, slot: usize, ending: Ending) {
        let Some(flow) = self.proxy.as_mut().and_then(|proxy| proxy.take(slot)) else { return };
        let Some(group) = self.peers.group_mut(flow.id.peer, flow.id.group) else { return };
        let queue = &mut group.proxy;
        queue.flows = queue.flows.saturating_sub(1);
        queue.turns.retain(|other| *other != slot);
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
                queue.send_control(&flow.reset(reason));
                group.active = true;
            }
            Ending::Gone => queue.counters.reset += 1,
        }
    }

    /// Nothing of the group's connections is known to the peer any more: they are reset.
    pub(super) fn end_flows(&mut self, peer: u16, group: u8) {
        let Some(proxy) = &mut self.proxy else { return };
        proxy.peers_changed = true;
        for slot in proxy.all(|id| (id.peer, id.group) == (peer, group)) {
            self.end_flow(slot, Ending::Gone);
        }
        let Some(group) = self.peers.group_mut(peer, group) else { return };
        group.proxy.first.clear();
        group.links_mut().for_each(|link| link.messages.forget());
    }

    /// Whether other peers may take part in the proxy than when it was last asked.
    pub fn proxy_peers_changed(&mut self) -> bool {
        self.proxy.as_mut().is_some_and(|proxy| std::mem::take(&mut proxy.peers_changed))
    }

    /// The peers that take part in the proxy, with their own addresses.
    pub fn proxy_peers(&self) -> impl Iterator<Item = (&config::Peer, OwnAddresses)> + Clone {
        self.peers.iter().filter_map(|peer| {
            let own = peer.groups.iter().find_map(|group| group.proxy.peer)?;
            Some((&peer.config, own))
        })
    }
}

/// Whether an address may be that of one host, beside the gateway.
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
