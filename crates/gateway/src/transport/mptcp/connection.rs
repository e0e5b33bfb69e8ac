//! Life cycle of a path group's connection.

use std::{
    net::SocketAddr,
    ops::ControlFlow,
    time::{Duration, Instant},
};

use hawser_netdev::{
    mptcp::Stream,
    poll::{Interest, Ready},
};
use hawser_tls::Handshake;
use hawser_tunnel::{Peer, config};
use hawser_wire::{
    flow::mix,
    ip, label,
    record::{Hello, KEEPALIVE_RECORD, Record, Segmentation},
};

use super::{
    group::Group,
    link::{Link, LinkError, Progress},
    listeners::HELLO_TIMEOUT,
    staging::packets,
    state::Mptcp,
    token::Token,
};
use crate::transport::Host;

/// Interval of keepalives on an idle connection.
const KEEPALIVE: Duration = Duration::from_secs(1);

/// A connection on which nothing is received for this long is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

impl Group {
    /// Sends whole records, or queues them.
    pub(super) fn send(&mut self, records: &[u8], now: Instant) -> Result<(), LinkError> {
        let mut rest = records;
        if let Some(link) = self.link.as_mut().filter(|_| self.up)
            && link.is_idle()
            && self.queue.is_empty()
        {
            let sent = link.transmit(now, records, &mut self.counters.sent)?;
            rest = records.get(sent..).unwrap_or_default();
        }
        if !rest.is_empty() {
            self.enqueue(rest, now);
        }
        Ok(())
    }

    fn wants_to_write(&self, link: &Link) -> bool {
        !link.is_idle() || (self.up && !self.queue.is_empty())
    }
}

impl Mptcp {
    /// A connection is ready.
    pub(super) fn handle_events(
        &mut self,
        host: &mut Host,
        peer: usize,
        group: usize,
        event: Ready,
        now: Instant,
    ) {
        let mut result = Ok(());
        if event.writable {
            result = self.write(host, peer, group, now);
        }
        if event.readable && result.is_ok() {
            result = self.read(host, peer, group, now);
        }
        self.finish_io(host, peer, group, result, now);
    }

    fn group_mut(&mut self, peer: usize, group: usize) -> Option<&mut Group> {
        self.peers.get_mut(peer)?.groups.get_mut(group)
    }

    fn write(
        &mut self,
        host: &mut Host,
        peer: usize,
        group: usize,
        now: Instant,
    ) -> Result<(), LinkError> {
        let Some(place) = self.group_mut(peer, group) else { return Ok(()) };
        let Some(link) = &mut place.link else { return Ok(()) };
        match link.writable(now, &mut place.queue, &mut place.counters)? {
            Progress::Ready => self.send_hello(host, peer, group, now),
            Progress::Same => Ok(()),
        }
    }

    /// Receives from a connection and writes packets to the device.
    fn read(
        &mut self,
        host: &mut Host,
        peer: usize,
        group: usize,
        now: Instant,
    ) -> Result<(), LinkError> {
        let Host { tun, device, reach, .. } = host;
        let Some((found, table)) = self.peers.peer_and_table(peer) else { return Ok(()) };
        let Peer { config, groups, .. } = found;
        let Some(place) = groups.get_mut(group) else { return Ok(()) };
        let Group { link: Some(link), up, counters: of_group, config: group_config, .. } = place
        else {
            return Ok(());
        };
        let was_up = *up;
        let mut deliver = |packet: ip::Packet<'_>, cut: Option<Segmentation>| {
            let (packets, bytes) = (packets(&packet, cut), packet.bytes().len());
            of_group.received.add(packets, bytes);
            if table.peer(packet.source()) != Some(peer) {
                of_group.drops.foreign_source += 1;
            } else if let Err(denied) = reach.check(&packet, now) {
                denied.count(&mut of_group.drops);
            } else if tun.write(packet.bytes(), cut).is_ok() {
                device.written.add(packets, bytes);
            } else {
                device.drops.write_failed += 1;
            }
        };
        let progress = link.receive(now, |record| {
            match record {
                Record::Packet(packet) if *up => deliver(packet, None),
                Record::Segments(packet, cut) if *up => deliver(packet, Some(cut)),
                Record::Keepalive if *up => {}
                Record::Hello(hello) if !*up => {
                    check_hello(&hello, config, group_config.id)?;
                    *up = true;
                }
                _ => return Err(LinkError::Protocol("unexpected record")),
            }
            Ok(ControlFlow::Continue(()))
        })?;
        if *up && !was_up {
            self.came_up(peer, group, now)?;
        }
        if progress == Progress::Ready { self.send_hello(host, peer, group, now) } else { Ok(()) }
    }

    /// Sends our hello on an established connection.
    fn send_hello(
        &mut self,
        host: &mut Host,
        peer: usize,
        group: usize,
        now: Instant,
    ) -> Result<(), LinkError> {
        let (id, branch) = (host.config.document.id, host.config.document.branch.clone());
        let Some(place) = self.group_mut(peer, group) else { return Ok(()) };
        let mut hello = Vec::new();
        let id = u8::try_from(id).unwrap_or(u8::MAX); // the configuration has no such number
        Hello { id, group: place.config.id, branch: &branch }.emit(&mut hello);
        let Some(link) = &mut place.link else { return Ok(()) };
        link.send_record(now, &hello)
    }

    /// Both hellos were exchanged: packets may be sent.
    fn came_up(&mut self, peer: usize, group: usize, now: Instant) -> Result<(), LinkError> {
        let Some(Peer { config, groups, .. }) = self.peers.get_mut(peer) else { return Ok(()) };
        let Some(place) = groups.get_mut(group) else { return Ok(()) };
        place.set_up(now);
        let Some(link) = &mut place.link else { return Ok(()) };
        let remote =
            link.stream.peer().map_or_else(|e| e.to_string(), |address| address.to_string());
        tracing::info!(peer = config.branch, group = place.config.id, remote, "up");
        link.writable(now, &mut place.queue, &mut place.counters).map(|_| ())
    }

    /// Makes an authenticated connection that of a group, and answers its hello.
    pub(super) fn adopt(
        &mut self,
        host: &mut Host,
        peer: usize,
        group: usize,
        link: Link,
        now: Instant,
    ) {
        let Some(place) = self.group_mut(peer, group) else { return };
        if place.link.is_some() {
            self.end(peer, group, &LinkError::Replaced, now);
        }
        let token = Token::Group(peer, group).pack();
        let interest = if link.wants_write { Interest::ReadWrite } else { Interest::Read };
        let mut result = host.poller.modify(&link.stream, token, interest).map_err(LinkError::from);
        let Some(place) = self.group_mut(peer, group) else { return };
        place.link = Some(link);
        result = result.and_then(|()| self.send_hello(host, peer, group, now));
        result = result.and_then(|()| self.came_up(peer, group, now));
        // What followed the hello has been read already, so the poller will not report it.
        result = result.and_then(|()| self.read(host, peer, group, now));
        self.finish_io(host, peer, group, result, now);
    }

    /// Ends an operation on a connection: closes it on error, otherwise updates the poller.
    pub(super) fn finish_io(
        &mut self,
        host: &mut Host,
        peer: usize,
        group: usize,
        result: Result<(), LinkError>,
        now: Instant,
    ) {
        if let Err(error) = result.and_then(|()| self.update_interest(host, peer, group)) {
            self.end(peer, group, &error, now);
        }
    }

    fn update_interest(
        &mut self,
        host: &mut Host,
        peer: usize,
        group: usize,
    ) -> Result<(), LinkError> {
        let Some(place) = self.peers.get_mut(peer).and_then(|p| p.groups.get_mut(group)) else {
            return Ok(());
        };
        let Some(wanted) = place.link.as_ref().map(|link| place.wants_to_write(link)) else {
            return Ok(());
        };
        let Some(link) = &mut place.link else { return Ok(()) };
        let wanted = wanted || link.is_connecting();
        if wanted != link.wants_write {
            link.wants_write = wanted;
            let interest = if wanted { Interest::ReadWrite } else { Interest::Read };
            host.poller.modify(&link.stream, Token::Group(peer, group).pack(), interest)?;
        }
        Ok(())
    }

    /// Closes a connection. Its queue is kept.
    pub(super) fn end(&mut self, peer: usize, group: usize, error: &LinkError, now: Instant) {
        let Some(Peer { config, groups, .. }) = self.peers.get_mut(peer) else { return };
        let Some(place) = groups.get_mut(group) else { return };
        if place.link.take().is_some() {
            place.counters.ends.count(error.cause());
            let (peer, group) = (&config.branch, place.config.id);
            if std::mem::take(&mut place.up) {
                tracing::warn!(peer, group, %error, "down");
            } else {
                tracing::debug!(peer, group, %error, "no connection");
            }
        }
        self.random = mix(self.random, 1);
        place.retry.failed(now, self.random);
    }

    /// Checks the timers of a group.
    pub(super) fn run_timers(&mut self, host: &mut Host, peer: usize, group: usize, now: Instant) {
        let Some(Peer { groups, we_connect, .. }) = self.peers.get_mut(peer) else { return };
        let Some(place) = groups.get_mut(group) else { return };
        let result = match &mut place.link {
            None if *we_connect && place.retry.is_due(now) => {
                self.open(host, peer, group, now);
                return;
            }
            Some(link)
                if now - link.last_received
                    >= if place.up { IDLE_TIMEOUT } else { HELLO_TIMEOUT } =>
            {
                Err(LinkError::Silent)
            }
            Some(link) if place.up && link.is_idle() && now - link.last_sent >= KEEPALIVE => {
                link.send_record(now, &KEEPALIVE_RECORD)
            }
            _ => return,
        };
        self.finish_io(host, peer, group, result, now);
    }

    /// Starts to connect.
    fn open(&mut self, host: &mut Host, peer: usize, group: usize, now: Instant) {
        let result = self.try_open(host, peer, group, now);
        if let Err(error) = result {
            self.end(peer, group, &error, now);
        }
    }

    fn try_open(
        &mut self,
        host: &mut Host,
        peer: usize,
        group: usize,
        now: Instant,
    ) -> Result<(), LinkError> {
        let Some(Peer { config, groups, .. }) = self.peers.get_mut(peer) else { return Ok(()) };
        let Some(place) = groups.get_mut(group) else { return Ok(()) };
        let Some((local, remote)) = place.next_path() else { return Ok(()) };
        let remote = SocketAddr::new(remote, label::agent_port(config.id, place.config.id));
        let identity = self.identity.as_ref();
        let handshake = identity.map(|own| Handshake::client(own, &config.branch)).transpose()?;
        let stream = Stream::connect(local, remote, &self.tuning)?;
        host.poller.add(&stream, Token::Group(peer, group).pack(), Interest::ReadWrite)?;
        place.link = Some(Link::connecting(stream, handshake, now));
        Ok(())
    }
}

/// Whether the peer is the one expected.
fn check_hello(hello: &Hello<'_>, peer: &config::Peer, group: u8) -> Result<(), LinkError> {
    if (hello.branch, u16::from(hello.id), hello.group) == (&peer.branch, peer.id, group) {
        return Ok(());
    }
    let Hello { branch, id, group: found } = hello;
    Err(LinkError::IdentityMismatch(format!(
        "the other end is branch {branch:?}, id {id}, group {found}; expected {:?}, {}, {group}",
        peer.branch, peer.id
    )))
}
