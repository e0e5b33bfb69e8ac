//! Connections: how they begin, become known, and end.

use std::{collections::BTreeSet, io, net::SocketAddr, time::Instant};

use bytes::BytesMut;
use hawser_wire::tunnel::Hello;
use quinn_proto::{
    ConnectionEvent, ConnectionHandle, DatagramEvent, Dir, Event, Incoming, StreamEvent,
};

use super::{
    Quic,
    group::Group,
    link::{DONE, Link, OPENING, STRANGER, Said},
    settings::Settings,
    socket::{Place, Purpose, Socket},
};

/// Connections on a socket that have not said yet who they are, at most.
const MAX_STRANGERS: usize = 64;

impl Quic {
    /// Opens a socket.
    pub(super) fn open(&self, address: SocketAddr, purpose: Purpose) -> io::Result<Socket> {
        let takes = matches!(purpose, Purpose::Takes { .. });
        let model = self.settings.model(Instant::now());
        let server = takes.then(|| self.settings.server(&model));
        Socket::bind(address, purpose, Settings::endpoint(takes), server)
    }

    /// Looks at what is in no hurry: makes connections, asks silent paths, ends what took too long.
    pub(super) fn tick(&mut self, now: Instant) {
        let numbers: Vec<usize> = self.sockets.keys().copied().collect();
        for number in numbers {
            let Some(socket) = self.sockets.get_mut(&number) else { continue };
            for link in socket.links.values_mut() {
                link.ask(now);
                if !link.up && now.saturating_duration_since(link.since) >= OPENING {
                    link.connection.close(now, STRANGER, "too late".into());
                    link.active = true;
                }
            }
            if let Purpose::Makes { place, remote } = socket.purpose
                && socket.links.is_empty()
            {
                self.connect(number, place, remote, now);
            }
        }
        for group in self.peers.values_mut().flat_map(|peer| peer.groups.values_mut()) {
            group.active = true;
        }
    }

    /// Makes the connection of a path, if it is time.
    fn connect(&mut self, number: usize, place: Place, remote: SocketAddr, now: Instant) {
        let Some(peer) = self.peers.get_mut(&place.peer) else { return };
        let name = peer.config.branch.clone();
        let Some(group) = peer.groups.get_mut(&place.group) else { return };
        let Some(member) = group.members.get_mut(usize::from(place.member)) else { return };
        if !member.retry.is_due(now) {
            return;
        }
        member.retry.failed(now);
        let model = self.settings.model(now);
        let config = self.settings.client(&model);
        let Some(socket) = self.sockets.get_mut(&number) else { return };
        match socket.endpoint.connect(now, config, remote, &name) {
            Ok((handle, connection)) => {
                let link = Link::new(connection, model, Some(place), now);
                socket.links.insert(handle, link);
            }
            Err(error) => tracing::warn!(peer = name, %error, "cannot connect"),
        }
    }

    /// Receives what has come to a socket.
    pub(super) fn receive(&mut self, number: usize, now: Instant) {
        for _ in 0..4 {
            let Some(socket) = self.sockets.get_mut(&number) else { return };
            let mut room = std::mem::take(&mut self.room);
            let mut came = Vec::new();
            let more = socket.receive(&mut room, |meta, datagram| came.push((*meta, datagram)));
            self.room = room;
            for (meta, datagram) in came {
                self.handle(number, &meta, datagram, now);
            }
            self.deliver(number, now);
            if !more {
                return;
            }
        }
    }

    fn handle(
        &mut self,
        number: usize,
        meta: &quinn_udp::RecvMeta,
        datagram: BytesMut,
        now: Instant,
    ) {
        let Some(socket) = self.sockets.get_mut(&number) else { return };
        self.transmit.clear();
        let ecn = meta.ecn.and_then(|ecn| quinn_proto::EcnCodepoint::from_bits(ecn as u8));
        let (address, buffer) = (meta.addr, &mut self.transmit);
        match socket.endpoint.handle(now, address, meta.dst_ip, ecn, datagram, buffer) {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(link) = socket.links.get_mut(&handle) {
                    link.connection.handle_event(event);
                    link.active = true;
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.admit(number, incoming, now),
            Some(DatagramEvent::Response(transmit)) => {
                socket.send(&transmit, self.transmit.get(..transmit.size).unwrap_or_default());
            }
            None => {}
        }
    }

    /// Lets a connection in as far as to say who it is from.
    fn admit(&mut self, number: usize, incoming: Incoming, now: Instant) {
        let Some(socket) = self.sockets.get_mut(&number) else { return };
        self.transmit.clear();
        let strangers = socket.links.values().filter(|link| !link.up).count();
        let answer = if strangers >= MAX_STRANGERS {
            self.strangers.too_many += 1;
            Some(socket.endpoint.refuse(incoming, &mut self.transmit))
        } else {
            let model = self.settings.model(now);
            let config = std::sync::Arc::new(self.settings.server(&model));
            match socket.endpoint.accept(incoming, now, &mut self.transmit, Some(config)) {
                Ok((handle, connection)) => {
                    socket.links.insert(handle, Link::new(connection, model, None, now));
                    None
                }
                Err(error) => {
                    self.strangers.malformed += 1;
                    error.response
                }
            }
        };
        if let Some(transmit) = answer {
            socket.send(&transmit, self.transmit.get(..transmit.size).unwrap_or_default());
        }
    }

    /// Takes note of what has happened to connections of a socket.
    pub(super) fn attend(&mut self, number: usize, handles: &[ConnectionHandle], now: Instant) {
        for handle in handles {
            self.events(number, *handle, now);
            self.endpoint_events(number, *handle);
        }
    }

    fn events(&mut self, number: usize, handle: ConnectionHandle, now: Instant) {
        while let Some(event) =
            self.link_mut(number, handle).and_then(|link| link.connection.poll())
        {
            match event {
                Event::Connected => self.connected(number, handle),
                Event::Stream(event) => self.stream_event(number, handle, &event, now),
                Event::ConnectionLost { reason } => {
                    tracing::debug!(%reason, "connection ended");
                    self.lost(number, handle, &reason);
                }
                _ => {}
            }
        }
    }

    /// Streams are those of the hellos, and messages of the TCP lane.
    fn stream_event(
        &mut self,
        number: usize,
        handle: ConnectionHandle,
        event: &StreamEvent,
        now: Instant,
    ) {
        let Some(lane) = &mut self.lane else { return self.listen(number, handle, now) };
        let socket = self.sockets.get_mut(&number);
        let Some(link) = socket.and_then(|s| s.links.get_mut(&handle)) else { return };
        let Some(place) = link.place.filter(|_| link.up) else {
            return self.listen(number, handle, now);
        };
        let take = |message| lane.came.push((place, message));
        match *event {
            StreamEvent::Opened { dir: Dir::Uni } => link.accept_parcels(take),
            StreamEvent::Readable { id } if id.dir() == Dir::Uni => link.read_parcel(id, take),
            StreamEvent::Finished { id } => link.parcels.arrived(id),
            _ => {}
        }
    }

    /// Our own connections begin with our hello.
    fn connected(&mut self, number: usize, handle: ConnectionHandle) {
        let Some(place) = self.link_mut(number, handle).and_then(|link| link.place) else { return };
        self.greet(number, handle, place);
    }

    fn greet(&mut self, number: usize, handle: ConnectionHandle, place: Place) {
        let (id, branch) = (self.config.document.id, self.config.document.branch.clone());
        let Place { peer, group, member } = place;
        let Some(session) = self.group_mut(peer, group).map(|group| group.session) else { return };
        let lane = self.lane.as_ref().map(|lane| lane.own);
        if let Some(link) = self.link_mut(number, handle) {
            link.greet(&Hello { id, group, member, session, lane, branch: &branch });
        }
    }

    fn listen(&mut self, number: usize, handle: ConnectionHandle, now: Instant) {
        let socket = self.sockets.get_mut(&number);
        let Some(link) = socket.and_then(|s| s.links.get_mut(&handle)) else { return };
        if link.up {
            return;
        }
        let (ours, known) = (link.ours, link.place);
        let said = match link.listen() {
            Some(Ok(_)) if link.is_revoked(self.settings.identity()) => {
                Err("its certificate has been revoked".to_owned())
            }
            Some(Ok(said)) => self.check(number, said, known),
            Some(Err(error)) => Err(error),
            None => return,
        };
        match said {
            Ok(said) => {
                if !ours {
                    self.greet(number, handle, said.place);
                }
                self.adopt_link(number, handle, &said, now);
            }
            Err(error) => {
                self.strangers.stranger += 1;
                tracing::warn!(%error, "refused");
                if let Some(link) = self.link_mut(number, handle) {
                    link.connection.close(now, STRANGER, error.into());
                }
            }
        }
    }

    /// Whether the other end is who it should be.
    fn check(&self, number: usize, said: Said, known: Option<Place>) -> Result<Said, String> {
        let Place { peer: id, group, member } = said.place;
        let peer = self.peers.get(&id).filter(|peer| peer.config.branch == said.branch);
        let peer = peer.ok_or_else(|| format!("there is no peer {:?} ({id})", said.branch))?;
        let paths = peer.groups.get(&group).map_or(0, |known| known.members.len());
        if usize::from(member) >= paths {
            return Err(format!("{:?} has no path {member} in group {group}", said.branch));
        }
        let purpose = self.sockets.get(&number).map(|socket| socket.purpose);
        match (known, purpose) {
            (Some(place), _) if place == said.place => Ok(said),
            (None, Some(Purpose::Takes { group: own })) if own == group && !peer.we_connect => {
                Ok(said)
            }
            _ => Err(format!("{:?} is not to be on this path", said.branch)),
        }
    }

    /// The connection becomes that of a member path.
    fn adopt_link(&mut self, number: usize, handle: ConnectionHandle, said: &Said, now: Instant) {
        let place = said.place;
        let own_lane = self.lane.is_some();
        let Some(group) = self.group_mut(place.peer, place.group) else { return };
        let anew = group.peer_session != Some(said.session);
        if anew {
            // The peer has begun anew: so do the numbers of its packets.
            group.peer_session = Some(said.session);
            group.resequencer.reset();
            group.forget_contexts();
            group.lane.forget_numbers();
        }
        group.lane.peer = said.lane.filter(|_| own_lane);
        group.active = true;
        let Some(member) = group.members.get_mut(usize::from(place.member)) else { return };
        let before = member.link.replace((number, handle));
        member.retry = super::super::peer::Retry::default();
        member.connections += 1;
        if let Some((socket, old)) = before
            && let Some(link) = self.link_mut(socket, old)
        {
            link.connection.close(now, DONE, "replaced".into());
            let (parcels, news) = (link.take_back(), link.last_news());
            if let Some(group) = self.group_mut(place.peer, place.group) {
                group.lane.again(parcels);
                group.recover(now, news);
            }
        }
        if anew {
            self.end_flows(place.peer, place.group);
        }
        self.begin_link(number, handle, place);
        tracing::info!(peer = said.branch, group = place.group, member = place.member, "path up");
    }

    fn begin_link(&mut self, number: usize, handle: ConnectionHandle, place: Place) {
        let socket = self.sockets.get_mut(&number);
        let Some(link) = socket.and_then(|s| s.links.get_mut(&handle)) else { return };
        (link.place, link.up) = (Some(place), true);
        if let Some(lane) = &mut self.lane {
            lane.changed = true;
            link.accept_parcels(|message| lane.came.push((place, message)));
        }
    }

    /// A path is gone; what it had not delivered goes on others, if there are any.
    fn leave_link(&mut self, number: usize, handle: ConnectionHandle, place: Place) {
        let link = self.link_mut(number, handle);
        let taken = link.map(|link| (link.take_back(), link.last_news()));
        let (parcels, news) = taken.unwrap_or_default();
        let Some(group) = self.group_mut(place.peer, place.group) else { return };
        group.recover(Instant::now(), news);
        if group.is_up() {
            group.lane.again(parcels);
            group.active = true;
        } else {
            group.lane.peer = None;
            self.end_flows(place.peer, place.group);
        }
    }

    fn lost(
        &mut self,
        number: usize,
        handle: ConnectionHandle,
        reason: &quinn_proto::ConnectionError,
    ) {
        let Some(link) = self.link_mut(number, handle) else { return };
        let (place, was_up) = (link.place, std::mem::take(&mut link.up));
        let Some(place) = place else {
            self.strangers.gone += 1;
            return;
        };
        let Some(group) = self.group_mut(place.peer, place.group) else { return };
        let ends = &mut group.counters.ends;
        match reason {
            quinn_proto::ConnectionError::TimedOut => ends.silent += 1,
            quinn_proto::ConnectionError::TransportError(_) => ends.tls += 1,
            _ => ends.closed += 1,
        }
        if was_up
            && let Some(member) = group.members.get_mut(usize::from(place.member))
            && member.link == Some((number, handle))
        {
            member.link = None;
            tracing::warn!(peer = place.peer, group = place.group, member = place.member, %reason, "path down");
            self.leave_link(number, handle, place);
        }
    }

    /// Ends connections of those whose certificate has been revoked.
    pub(super) fn end_revoked(&mut self, now: Instant) {
        let mut revoked = Vec::new();
        for (number, socket) in &mut self.sockets {
            for (handle, link) in &mut socket.links {
                if link.is_revoked(self.settings.identity()) {
                    link.connection.close(now, STRANGER, "revoked".into());
                    link.active = true;
                    revoked.push((*number, *handle));
                }
            }
        }
        for (number, handle) in revoked {
            self.lost(number, handle, &quinn_proto::ConnectionError::LocallyClosed);
        }
    }

    fn endpoint_events(&mut self, number: usize, handle: ConnectionHandle) {
        let Some(Socket { endpoint, links, .. }) = self.sockets.get_mut(&number) else { return };
        let Some(link) = links.get_mut(&handle) else { return };
        let mut answers: Vec<ConnectionEvent> = Vec::new();
        let mut drained = false;
        while let Some(event) = link.connection.poll_endpoint_events() {
            drained |= event.is_drained();
            answers.extend(endpoint.handle_event(handle, event));
        }
        for answer in answers {
            link.connection.handle_event(answer);
            link.active = true;
        }
        if drained {
            links.remove(&handle);
        }
    }

    /// Members whose socket has gone have no connection, and connections of groups that have gone end: who made them
    /// makes others for what there is now.
    pub(super) fn forget_links(&mut self) {
        for group in self.peers.values_mut().flat_map(|peer| peer.groups.values_mut()) {
            for member in &mut group.members {
                let exists = |(socket, handle): &(usize, ConnectionHandle)| {
                    self.sockets.get(socket).is_some_and(|s| s.links.contains_key(handle))
                };
                member.link = member.link.filter(exists);
            }
        }
        let groups = self.peers.values().flat_map(|peer| peer.groups.values());
        let used: BTreeSet<_> = groups.flat_map(Group::links).collect();
        for (number, socket) in &mut self.sockets {
            for (handle, link) in &mut socket.links {
                if link.up && !used.contains(&(*number, *handle)) {
                    link.connection.close(Instant::now(), DONE, "its group has changed".into());
                    (link.up, link.active) = (false, true);
                }
            }
        }
    }

    /// Tells all peers that this is the end.
    pub(super) fn close(&mut self, now: Instant) {
        for link in self.sockets.values_mut().flat_map(|socket| socket.links.values_mut()) {
            link.connection.close(now, DONE, "the gateway ends".into());
            link.active = true;
        }
        self.transmit(now);
    }
}
