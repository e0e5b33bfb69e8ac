//! How connections begin: accepted from a client here, or asked for by a peer.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    time::Instant,
};

use hawser_multipath::Outbound;
use hawser_netdev::{
    poll::{Interest, Ready},
    transparent::Stream,
};
use hawser_wire::{
    flow::mix,
    ipv4::protocol::TCP,
    lane::{Kind, Message, Reason},
    tunnel::Own,
};

use super::{
    FLOWS, Lane,
    flow::{Flow, Name, Stage, reason},
};
use crate::{
    config::{Class, classifier::Type},
    quic::{Quic, socket::Place},
};

/// Connections accepted before others get their turn.
const ACCEPTS: usize = 64;

impl Quic {
    /// Accepts connections of clients, from the listening socket with this token.
    pub(in crate::quic) fn accept(&mut self, token: u64, now: Instant) {
        for _ in 0..ACCEPTS {
            let lane = self.lane.as_ref();
            let found = lane.and_then(|lane| lane.listeners().find(|(of, _)| *of == token));
            let Some((_, listener)) = found else { return };
            match listener.accept() {
                Ok(stream) => self.accepted(stream, now),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => tracing::debug!(%error, "a connection that went away"),
            }
        }
    }

    /// A client has connected: asks the peer to connect to whom it wants. Where that cannot be, the
    /// connection is reset by being dropped.
    fn accepted(&mut self, stream: Stream, now: Instant) {
        let Ok((client, server)) = stream.ends() else { return };
        let class = self.class_of(client, server);
        let id = self.table.peer(server.ip()).and_then(|index| self.ids.get(index));
        let Some(peer) = id.and_then(|id| self.peers.get_mut(id)) else { return };
        let index = self.places.place(&*peer, hash(client, server), class, now);
        let (even, id) = (peer.we_connect, peer.config.id);
        let Some((number, group)) = peer.groups.iter_mut().nth(index) else { return };
        let Some(lane) = &mut self.lane else { return };
        if group.lane.peer.is_none() || lane.is_full() {
            group.lane.counters.refused += 1;
            return;
        }
        let name = Name { peer: id, group: *number, number: group.lane.numbers.ours(even) };
        let window = lane.grant();
        let flow = Flow::new(name, Stage::Opening, stream, window);
        if self.poller.add(&flow.socket, token(lane), Interest::Changes).is_err() {
            return;
        }
        group.lane.tell(&flow.ask((client, server)));
        group.lane.counters.opened += 1;
        group.lane.flows += 1;
        group.active = true;
        lane.insert(flow);
    }

    /// Which of the classes that opt in a connection belongs to.
    fn class_of(&self, client: SocketAddr, server: SocketAddr) -> Class {
        let (pair, ports) = ((client.ip(), server.ip()), Some((client.port(), server.port())));
        let kind = self.config.classifier.as_ref().map(|c| c.classify(pair, TCP, ports, 0));
        let class = if kind == Some(Type::I) { Class::I } else { Class::II };
        let takes = |class| self.config.document.transport.lane.takes(class);
        // What told them apart, such as a DSCP, may no longer be seen.
        match class {
            class if takes(class) => class,
            Class::I => Class::II,
            Class::II => Class::I,
        }
    }

    /// The peer asks to connect to an end here.
    pub(super) fn reach(
        &mut self,
        place: Place,
        number: u32,
        (source, destination): (SocketAddr, SocketAddr),
        window: u32,
    ) {
        let even = self.peers.get(&place.peer).is_some_and(|peer| !peer.we_connect);
        let may = self.may_connect(place.peer, source.ip(), destination.ip());
        let Some(group) = self.peers.get_mut(&place.peer) else { return };
        let Some(group) = group.groups.get_mut(&place.group) else { return };
        let Some(lane) = &mut self.lane else { return };
        if !group.lane.numbers.is_new(number, even) {
            return;
        }
        group.active = true;
        let stream = match (may, lane.is_full()) {
            (false, _) => Err(Reason::Denied),
            (_, true) => Err(Reason::Full),
            _ => Stream::connect(source, destination).map_err(|error| reason(&error)),
        };
        let added = stream.and_then(|stream| {
            let added = self.poller.add(&stream, token(lane), Interest::Changes);
            added.map(|()| stream).map_err(|_| Reason::Full)
        });
        match added {
            Ok(stream) => {
                let name = Name { peer: place.peer, group: place.group, number };
                let mut flow = Flow::new(name, Stage::Connecting, stream, lane.grant());
                flow.outbound = Outbound::new(window.into());
                lane.insert(flow);
                group.lane.counters.opened += 1;
                group.lane.flows += 1;
            }
            Err(reason) => {
                tracing::debug!(%source, %destination, ?reason, "not connected");
                group.lane.tell(&Message { flow: number, kind: Kind::Reset(reason) });
                group.lane.counters.refused += 1;
            }
        }
    }

    /// A peer connects only as somebody behind it, and only to hosts that are not behind a peer.
    fn may_connect(&self, peer: u16, source: IpAddr, destination: IpAddr) -> bool {
        let behind = |address| self.table.peer(address).and_then(|index| self.ids.get(index));
        let Some(own) = self.lane.as_ref().map(|lane| lane.own) else { return false };
        behind(source) == Some(&peer)
            && behind(destination).is_none()
            && source.is_ipv4() == destination.is_ipv4()
            && is_host(own, destination)
    }

    /// Something has happened to a connection.
    pub(in crate::quic) fn flow_event(&mut self, event: Ready) {
        let Ok(slot) = usize::try_from(event.token - FLOWS) else { return };
        let Some(lane) = &mut self.lane else { return };
        let Some(flow) = lane.flow_mut(slot) else { return };
        flow.readable |= event.readable;
        flow.writable |= event.writable;
        if event.failed
            && let Err(error) = flow.socket.take_error()
        {
            flow.failed = Some(reason(&error));
        }
        let connected = flow.stage == Stage::Connecting && event.writable && flow.failed.is_none();
        if connected {
            flow.stage = Stage::Open;
            let (message, name) = (flow.confirm(), flow.name);
            if let Some(group) = self.group_mut(name.peer, name.group) {
                group.lane.tell(&message);
                group.active = true;
            }
        }
        if let Some(lane) = &mut self.lane {
            lane.dirty.push(slot);
        }
        self.may_send(slot);
    }

    /// A connection may have something to send: it gets its turn.
    pub(super) fn may_send(&mut self, slot: usize) {
        let Some(flow) = self.lane.as_mut().and_then(|lane| lane.flow_mut(slot)) else { return };
        if flow.queued || !flow.may_send() {
            return;
        }
        flow.queued = true;
        let name = flow.name;
        if let Some(group) = self.group_mut(name.peer, name.group) {
            group.lane.turn.push_back(slot);
            group.active = true;
        }
    }
}

fn token(lane: &Lane) -> u64 {
    FLOWS + lane.next_slot() as u64
}

/// Whether an address may be that of one host, beside the gateway.
fn is_host(own: Own, address: IpAddr) -> bool {
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
