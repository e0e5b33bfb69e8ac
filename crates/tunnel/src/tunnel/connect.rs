//! Life cycle of connections: they become member paths, and end.

use std::time::Instant;

use quinn_proto::{ConnectionError, ConnectionHandle, Dir, Event as QuicEvent, StreamEvent};

use super::{endpoint::Owner, event::Event, state::Tunnel};
use crate::{
    group::Group,
    path::{CLOSED, Link, PathId, PeerHello, REFUSED},
    proxy::Stream,
    retry::Retry,
};

/// A connection: number of its socket, and handle at the endpoint there.
type At = (usize, ConnectionHandle);

impl<S: Stream> Tunnel<S> {
    /// Handles the events of a connection.
    pub(super) fn poll_connection(&mut self, at: At, now: Instant) {
        if let Some(id) = self.path_of(at)
            && let Some(group) = self.peers.group_mut(id.peer, id.group)
            && let Some(outcomes) = group.link_mut(id.member).map(Link::outcomes)
        {
            group.apply_outcomes(now, outcomes);
        }
        while let Some(event) = self.link_mut(at).and_then(|link| link.connection.poll()) {
            match event {
                QuicEvent::Connected => self.connected(at),
                QuicEvent::Stream(event) => self.stream_event(at, &event, now),
                QuicEvent::ConnectionLost { reason } => self.on_connection_lost(at, reason, now),
                _ => {}
            }
        }
        self.endpoint_events(at);
    }

    /// Streams carry hellos, and messages of the TCP proxy.
    fn stream_event(&mut self, at: At, event: &StreamEvent, now: Instant) {
        let Some(id) = self.path_of(at) else { return self.read_hello(at, now) };
        let Some(proxy) = &mut self.proxy else { return };
        let group = self.peers.group_mut(id.peer, id.group);
        let Some(link) = group.and_then(|group| group.link_mut(id.member)) else { return };
        let take = |message| proxy.received.push((id, message));
        match *event {
            StreamEvent::Opened { dir: Dir::Uni } => link.accept_messages(take),
            StreamEvent::Readable { id } if id.dir() == Dir::Uni => link.read_message(id, take),
            StreamEvent::Finished { id } => link.messages.finished(id),
            _ => {}
        }
    }

    /// Makes a connection that of a member path.
    pub(super) fn adopt(&mut self, at: At, hello: PeerHello, now: Instant) {
        let id = hello.id;
        let Some(peer) = self.peers.by_id_mut(id.peer) else { return };
        let Some(group) = peer.group_mut(id.group) else { return };
        let Some(member) = group.members.get_mut(usize::from(id.member)) else { return };
        let Some(endpoint) = self.endpoints.get_mut(&at.0) else { return };
        let Some(mut link) = self.unowned.remove(&at) else { return };
        endpoint.set_owner(at.1, Owner::Path(id));
        link.id = Some(id);
        let remote = link.connection.remote_address().ip();
        member.retry = Retry::default();
        member.connections += 1;
        let before = member.link.replace(link);
        let anew = group.start_session(hello.session);
        group.proxy.peer = hello.proxy.filter(|_| self.proxy.is_some());
        group.set_capabilities(hello.capabilities);
        group.active = true;
        if let Some(mut old) = before {
            old.connection.close(now, CLOSED, "replaced".into());
            let (messages, outcomes) = (old.reclaim_messages(), old.last_outcomes());
            group.proxy.requeue(messages);
            group.apply_outcomes(now, outcomes);
            self.release(old);
        }
        if anew {
            self.end_flows(id.peer, id.group);
        }
        self.accept_early_messages(id);
        self.peers.note_remote(id.peer, id.group, id.member, remote);
        let (group, member) = (id.group, id.member);
        self.events.push_back(Event::PathUp { peer: hello.branch, group, member });
    }

    /// Messages may have arrived before the path was known.
    fn accept_early_messages(&mut self, id: PathId) {
        let Some(proxy) = &mut self.proxy else { return };
        proxy.peers_changed = true;
        let group = self.peers.group_mut(id.peer, id.group);
        if let Some(link) = group.and_then(|group| group.link_mut(id.member)) {
            link.accept_messages(|message| proxy.received.push((id, message)));
        }
    }

    /// A connection has ended.
    fn on_connection_lost(&mut self, at: At, reason: ConnectionError, now: Instant) {
        self.events.push_back(Event::Ended(reason.clone()));
        let path = self.path_of(at);
        let Some(id) = self.link_mut(at).map(|link| link.id) else { return };
        let Some(id) = id else {
            self.unauthenticated.no_hello += 1;
            return;
        };
        let Some(group) = self.peers.group_mut(id.peer, id.group) else { return };
        let ends = &mut group.counters.ends;
        match reason {
            ConnectionError::TimedOut => ends.silent += 1,
            ConnectionError::TransportError(_) => ends.tls += 1,
            _ => ends.closed += 1,
        }
        if path == Some(id) {
            self.on_path_lost(id, now);
            let PathId { peer, group, member } = id;
            self.events.push_back(Event::PathDown { peer, group, member, reason });
        }
    }

    /// A path has lost its connection; what was in flight is sent on others, if there are any.
    pub(super) fn on_path_lost(&mut self, id: PathId, now: Instant) {
        let Some(group) = self.peers.group_mut(id.peer, id.group) else { return };
        let member = group.members.get_mut(usize::from(id.member));
        let Some(mut link) = member.and_then(|member| member.link.take()) else { return };
        let (messages, outcomes) = (link.reclaim_messages(), link.last_outcomes());
        group.apply_outcomes(now, outcomes);
        let up = group.is_up();
        if up {
            group.proxy.requeue(messages);
            group.active = true;
        } else {
            group.proxy.peer = None;
        }
        self.release(link);
        if !up {
            self.end_flows(id.peer, id.group);
        }
    }

    /// Closes connections of peers whose certificate is not valid any more: it has been revoked, or
    /// another authority is configured. Those without a hello are judged when it arrives.
    pub(super) fn end_distrusted(&mut self, now: Instant) {
        let identity = self.settings.identity();
        let mut ended = Vec::new();
        for peer in self.peers.iter_mut() {
            // Mostly all paths have the same certificate.
            let mut last = None;
            for link in peer.groups.iter_mut().flat_map(Group::links_mut) {
                let chain = link.chain();
                let known = last.take().filter(|(known, _)| *known == chain);
                let judge = || link.is_distrusted(identity, &peer.config.branch);
                let is_distrusted = known.map_or_else(judge, |(_, verdict)| verdict);
                last = Some((chain, is_distrusted));
                if is_distrusted {
                    link.connection.close(now, REFUSED, "certificate not valid any more".into());
                    link.active = true;
                    ended.push(link.at);
                }
            }
        }
        for at in ended {
            self.on_connection_lost(at, ConnectionError::LocallyClosed, now);
        }
    }

    fn endpoint_events(&mut self, at: At) {
        let mut drained = false;
        while let Some(event) =
            self.link_mut(at).and_then(|link| link.connection.poll_endpoint_events())
        {
            drained |= event.is_drained();
            let endpoint = self.endpoints.get_mut(&at.0);
            let answer = endpoint.and_then(|endpoint| endpoint.quic.handle_event(at.1, event));
            if let Some(answer) = answer
                && let Some(link) = self.link_mut(at)
            {
                link.connection.handle_event(answer);
                link.active = true;
            }
        }
        if drained && let Some(endpoint) = self.endpoints.get_mut(&at.0) {
            endpoint.forget(at.1);
            self.unowned.remove(&at);
        }
    }
}
