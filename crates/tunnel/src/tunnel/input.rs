//! Input: datagrams of the paths, and packets of the device.

use std::{
    net::{IpAddr, SocketAddr},
    time::Instant,
};

use bytes::{Bytes, BytesMut};
use hawser_multipath::flow_bucket;
use hawser_wire::{
    flow, ip,
    ipv4::protocol::TCP,
    record::Segmentation,
    rendezvous::is_of_rendezvous,
    segment::GsoPacket,
    tcp::{self, Segment},
    train::is_of_train,
    tunnel::{HEADER_LEN, unknown_context},
};
use quinn_proto::{
    ConnectionEvent, ConnectionHandle, DatagramEvent, EcnCodepoint, EndpointEvent,
    Incoming as Attempt,
};

use super::{endpoint::Owner, state::Tunnel};
use crate::{
    admission::{Candidate, Verdict, judge},
    arena::Arena,
    config::Class,
    counters::TunCounters,
    group::{Dropped, Incoming, Marks},
    path::{Link, PathId, PathMtu},
    proxy::Stream,
};

/// Origin of a datagram.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// Its source address.
    pub remote: SocketAddr,
    /// Its destination address, if known.
    pub local: Option<IpAddr>,
    /// Its ECN field (RFC 3168 section 5), if known.
    pub ecn: Option<u8>,
    /// When the kernel received it, if known.
    pub received: Option<Instant>,
}

impl<S: Stream> Tunnel<S> {
    /// Takes a datagram received on a socket. [`Self::poll_packet`] then returns its packets.
    pub fn handle_input(&mut self, now: Instant, socket: usize, from: Source, datagram: BytesMut) {
        let Some(endpoint) = self.endpoints.get_mut(&socket) else { return };
        let Source { remote, local, ecn, received } = from;
        let ecn = ecn.and_then(EcnCodepoint::from_bits);
        let mut answer = std::mem::take(&mut self.response);
        answer.clear();
        match endpoint.quic.handle(now, remote, local, ecn, datagram, &mut answer) {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                self.handle_event((socket, handle), event, received.unwrap_or(now), now);
            }
            Some(DatagramEvent::NewConnection(attempt)) => {
                self.admit(socket, attempt, &mut answer, now);
            }
            Some(DatagramEvent::Response(transmit)) => {
                self.responses.push_back((socket, transmit, answer.clone()));
            }
            None => {}
        }
        self.response = answer;
    }

    /// Passes a datagram to its connection. DATAGRAM frames are read if the connection belongs to a
    /// path, otherwise discarded.
    fn handle_event(
        &mut self,
        (socket, handle): (usize, ConnectionHandle),
        event: ConnectionEvent,
        received: Instant,
        now: Instant,
    ) {
        let endpoint = self.endpoints.get_mut(&socket);
        match endpoint.and_then(|endpoint| endpoint.owner(handle)) {
            Some(Owner::Path(id)) => {
                let group = self.peers.group_mut(id.peer, id.group);
                let Some(link) = group.and_then(|group| group.link_mut(id.member)) else { return };
                link.handle_event(event);
                link.trains.arrived = received;
                if link.trains.is_receiving() {
                    self.read(id, now);
                } else if !std::mem::replace(&mut link.unread, true) {
                    self.unread.push_back(id);
                }
            }
            Some(Owner::Nobody) => {
                let Some(link) = self.unowned.get_mut(&(socket, handle)) else { return };
                link.handle_event(event);
                while link.connection.datagrams().recv().is_some() {}
            }
            None => {}
        }
    }

    /// Accepts a connection up to its hello, or refuses it.
    fn admit(&mut self, socket: usize, attempt: Attempt, answer: &mut Vec<u8>, now: Instant) {
        let source = attempt.remote_address().ip();
        let validated = attempt.remote_address_validated();
        let verdict = self.judge(Candidate { source, validated });
        if let Verdict::Replace(index) = verdict {
            self.drop_pending(index);
        }
        let Some(endpoint) = self.endpoints.get_mut(&socket) else { return };
        answer.clear();
        let transmit = match verdict {
            Verdict::Accept | Verdict::Replace(_) => self.accept(socket, attempt, answer, now),
            Verdict::Retry => {
                self.unauthenticated.retries += 1;
                endpoint.quic.retry(attempt, answer).ok()
            }
            Verdict::TooMany => {
                self.unauthenticated.too_many += 1;
                Some(endpoint.quic.refuse(attempt, answer))
            }
            Verdict::TooManyFromSource => {
                self.unauthenticated.too_many_from_source += 1;
                Some(endpoint.quic.refuse(attempt, answer))
            }
        };
        if let Some(transmit) = transmit {
            self.responses.push_back((socket, transmit, answer.clone()));
        }
    }

    fn judge(&self, attempt: Candidate) -> Verdict {
        let pending = self.pending().map(|link| Candidate {
            source: link.connection.remote_address().ip(),
            validated: link.validated,
        });
        judge(attempt, pending, |address| self.peers.paths_from(address))
    }

    /// Connections of which no hello has come.
    fn pending(&self) -> impl Iterator<Item = &Link> {
        self.unowned.values().filter(|link| !link.is_client && link.id.is_none())
    }

    /// Forgets a connection without telling the other end, which may be nobody.
    fn drop_pending(&mut self, index: usize) {
        let Some(at) = self.pending().nth(index).map(|link| link.at) else { return };
        self.unowned.remove(&at);
        self.unauthenticated.too_many += 1;
        if let Some(endpoint) = self.endpoints.get_mut(&at.0) {
            endpoint.forget(at.1);
            endpoint.quic.handle_event(at.1, EndpointEvent::drained());
        }
    }

    /// Opens a connection whose path is not known yet. On error returns what is to be sent.
    fn accept(
        &mut self,
        socket: usize,
        attempt: Attempt,
        answer: &mut Vec<u8>,
        now: Instant,
    ) -> Option<quinn_proto::Transmit> {
        let model = self.settings.model(now);
        let endpoint = self.endpoints.get_mut(&socket)?;
        let max_datagram = endpoint.max_datagram;
        let config = std::sync::Arc::new(self.settings.server(&model, max_datagram));
        let validated = attempt.remote_address_validated();
        match endpoint.quic.accept(attempt, now, answer, Some(config)) {
            Ok((handle, connection)) => {
                let mut link = Link::new(connection, (socket, handle), model, None, now);
                link.mtu = PathMtu::new(max_datagram);
                link.validated = validated;
                link.relayed = endpoint.is_relayed();
                endpoint.set_owner(handle, Owner::Nobody);
                self.unowned.insert(link.at, link);
                None
            }
            Err(error) => {
                self.unauthenticated.malformed += 1;
                error.response
            }
        }
    }

    /// The next packet for this branch.
    pub fn poll_packet(&mut self, now: Instant) -> Option<Incoming> {
        while self.delivered.is_empty()
            && let Some(id) = self.unread.pop_front()
        {
            self.read(id, now);
        }
        self.delivered.pop_front()
    }

    /// Reads the DATAGRAM frames of a path's connection.
    fn read(&mut self, id: PathId, now: Instant) {
        let Some((place, group, table)) = self.peers.group_and_table(id.peer, id.group) else {
            return;
        };
        // Cache of the last source looked up: mostly the next packet has the same.
        let mut last = None;
        let owns = |address| {
            let known = last.filter(|(known, _)| *known == address);
            let (_, owner) = *last.insert(known.unwrap_or_else(|| (address, table.peer(address))));
            owner == Some(place)
        };
        let (mut owns, reach) = (owns, &mut self.reach);
        let mut check = |packet: &ip::Packet<'_>| {
            if !owns(packet.source()) {
                return Err(Dropped::ForeignSource);
            }
            reach.check(packet, now).map_err(Dropped::Denied)
        };
        if let Some(link) = group.link_mut(id.member) {
            link.unread = false;
        }
        while let Some(datagram) =
            group.link_mut(id.member).and_then(|link| link.connection.datagrams().recv())
        {
            if is_of_rendezvous(&datagram) {
                self.rendezvous.received.push((id, datagram));
                continue;
            }
            if is_of_train(&datagram) {
                self.trains.received.push((id, datagram));
                continue;
            }
            let member = usize::from(id.member);
            let delivered = &mut self.delivered;
            if let Some(flow) = group.receive(member, &datagram, now, delivered, &mut check)
                && let Some(link) = group.link_mut(id.member)
            {
                // If there is no room, the next such packet is answered.
                link.send(Bytes::copy_from_slice(&unknown_context(flow)), None);
            }
        }
        self.handle_messages(now);
        self.handle_trains(now);
    }

    /// Takes a packet of this branch, segments it if it is a GSO packet, and queues it for a path
    /// group.
    pub fn handle_packet(
        &mut self,
        now: Instant,
        bytes: &[u8],
        cut: Option<Segmentation>,
        counters: &mut TunCounters,
        class: impl FnOnce(&ip::Packet<'_>) -> Class,
    ) {
        let Ok(packet) = ip::Packet::parse(bytes) else {
            counters.drops.malformed += 1;
            return;
        };
        let large = cut.map(|cut| GsoPacket::new(bytes, cut));
        let packets = large.flatten().map_or(1, |large| large.count());
        counters.read.add(packets, bytes.len());
        let Some(place) = self.peers.index_by_address(packet.destination()) else {
            counters.drops.unknown_destination += 1;
            return;
        };
        self.reach.note(&packet, now);
        let hash = flow::hash(&packet);
        let class = class(&packet);
        let Some(index) = self.peers.choose(place, hash, class, now) else { return };
        let peer = self.peers.get_mut(place);
        let Some(group) = peer.and_then(|peer| peer.groups.get_mut(index)) else { return };
        if matches!(packet, ip::Packet::V6(_)) && !group.takes_ipv6() {
            group.counters.drops.unsupported += 1;
            return;
        }
        let flow = flow_bucket(hash);
        let mtu = group.mtu();
        match large {
            None if bytes.len() > usize::from(mtu) => {
                self.handle_oversize(now, &packet, (place, index), (flow, class));
            }
            None => {
                let retransmittable = Segment::of(&packet) == Some(Segment::Data);
                let bytes = datagram_of(bytes, mtu, &mut self.arena);
                group.enqueue(now, Marks { flow, class, retransmittable }, false, bytes);
            }
            Some(Some(large)) => {
                let retransmittable = packet.protocol() == TCP;
                let fitting = large.fit(mtu);
                group.counters.sizes.resegmented += u64::from(!fitting.is_cut_as(&large));
                let marks = Marks { flow, class, retransmittable };
                group.enqueue_segments(now, marks, &fitting, &mut self.arena);
            }
            Some(None) => counters.drops.malformed += 1,
        }
    }
}

/// A datagram of a packet, with room for our header; a SYN offers no larger segments than fit.
fn datagram_of(packet: &[u8], mtu: u16, arena: &mut Arena) -> BytesMut {
    let mut bytes = arena.join(&[&[0; HEADER_LEN], packet]);
    if tcp::is_syn(packet) {
        tcp::clamp_mss(bytes.get_mut(HEADER_LEN..).unwrap_or_default(), mtu);
    }
    bytes
}
