//! Introductions: gateways that are both behind a NAT find each other through a third, and open their NATs at the same
//! time (docs/design/addresses.md, Both ends behind NAT).

use std::{
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use hawser_multipath::State;
use hawser_wire::{
    rendezvous::{Meeting as Place, Message, Relayed},
    tunnel::Capabilities,
};
use quinn_proto::Transmit;

use super::{
    endpoint::{Endpoint, Purpose},
    state::Tunnel,
};
use crate::{
    counters::RendezvousCounters,
    path::{Link, PathId},
    proxy::Stream,
    retry::Retry,
};

/// Time for which a gateway is seen at an address before others are told of it.
const SETTLED: Duration = Duration::from_millis(500);

/// Time from the moment when the more distant end has its introduction until both send.
const LEAD: Duration = Duration::from_millis(50);

/// What the listening end sends to open its NAT: the first byte of a long header alone, which QUIC discards before it looks
/// for a connection (RFC 9000 section 5.2). One byte amplifies nothing.
const OPENING: [u8; 1] = [0xff];

impl<S: Stream> Tunnel<S> {
    /// A path to whose peer the rendezvous has introduced this gateway, and where the peer is:
    /// [`Self::configure`] is to be called with that as the path's `reflexive`.
    pub fn poll_introduction(&mut self) -> Option<(PathId, SocketAddr)> {
        self.rendezvous.introductions.pop_front()
    }

    /// Handles the messages that have been received.
    pub(super) fn handle_messages(&mut self, now: Instant) {
        for (from, bytes) in std::mem::take(&mut self.rendezvous.received) {
            let heeded = if let Some(relayed) = Relayed::parse(&bytes) {
                relayed.ok().and_then(|relayed| self.handle_relayed(from, relayed, now))
            } else {
                let message = Message::parse(&bytes).and_then(Result::ok);
                message.and_then(|message| self.heed(from, message, now))
            };
            if heeded.is_none()
                && let Some(counters) = self.rendezvous_counters(from)
            {
                counters.ignored += 1;
            }
        }
    }

    pub(super) fn rendezvous_counters(&mut self, path: PathId) -> Option<&mut RendezvousCounters> {
        self.peers.group_mut(path.peer, path.group).map(|group| &mut group.counters.rendezvous)
    }

    /// None: the message is ignored.
    fn heed(&mut self, from: PathId, message: Message, now: Instant) -> Option<()> {
        match message {
            Message::Observed(address) => self.handle_observed(from, address, now),
            Message::Request(place) => self.handle_request(from, place, now),
            Message::Introduction { meeting, wait_ms, address } => {
                let wait = Duration::from_millis(wait_ms.into());
                self.handle_introduction(from, meeting, (wait, address), now)
            }
        }
    }

    fn link_of(&mut self, path: PathId) -> Option<&mut Link> {
        self.peers.group_mut(path.peer, path.group)?.link_mut(path.member)
    }

    /// The peer has told where it sees this gateway.
    fn handle_observed(&mut self, from: PathId, address: SocketAddr, now: Instant) -> Option<()> {
        let before = self.link_of(from)?.observed.replace(address);
        if before.is_some_and(|before| before != address)
            && self.config.rendezvous == Some(from.peer)
        {
            for group in self.peers.groups_mut() {
                if let Some(member) = group.members.get_mut(from.member.into()) {
                    member.meeting.start_again(now);
                }
            }
        }
        Some(())
    }

    /// At the rendezvous: a gateway asks to be introduced to another.
    fn handle_request(&mut self, from: PathId, place: Place, now: Instant) -> Option<()> {
        let possible = self.config.rendezvous == Some(self.config.id)
            && place.peer != from.peer
            && place.member == from.member;
        let known = possible && self.peers.by_id(place.peer).is_some();
        if !known || !self.rendezvous.keep(from, place, now) {
            return None;
        }
        self.introduce(from, place, now);
        Some(())
    }

    /// At the rendezvous: introduces gateways again of which one is seen elsewhere than was told.
    fn introduce_again(&mut self, now: Instant) {
        for (from, place) in self.rendezvous.kept(now) {
            self.introduce(from, place, now);
        }
    }

    /// Tells two gateways where they are, if both have been where they are for a while, and are not told that already.
    fn introduce(&mut self, from: PathId, place: Place, now: Instant) -> Option<()> {
        let asker = self.link_of(from)?;
        let (one, one_rtt) = (asker.seen_for(SETTLED, now)?, asker.connection.rtt());
        let (other, link) = self.seen_at(place.peer, place.member)?;
        let (two, two_rtt) = (link.seen_for(SETTLED, now)?, link.connection.rtt());
        let same_family = one.is_ipv4() == two.is_ipv4();
        if !same_family || !self.rendezvous.is_news((from, place), (one, two)) {
            return None;
        }
        let wait = one_rtt.max(two_rtt) / 2 + LEAD;
        let wait_ms = u16::try_from(wait.as_millis()).ok()?;
        for (to, peer, address) in [(from, place.peer, two), (other, from.peer, one)] {
            let meeting = Place { peer, ..place };
            let message = Message::Introduction { meeting, wait_ms, address };
            self.link_of(to)?.tell(message);
            self.rendezvous_counters(to)?.introductions += 1;
        }
        Some(())
    }

    /// The direct connection of a peer on a member path of any group, opened by the peer.
    fn seen_at(&mut self, peer: u16, member: u8) -> Option<(PathId, &mut Link)> {
        let groups = self.peers.by_id_mut(peer)?.groups.iter_mut();
        groups.filter(|group| group.takes(Capabilities::RENDEZVOUS)).find_map(|group| {
            let id = PathId { peer, group: group.config.id, member };
            let link = group.link_mut(member)?;
            (!link.is_client && !link.relayed).then_some((id, link))
        })
    }

    /// The rendezvous has introduced a peer.
    fn handle_introduction(
        &mut self,
        from: PathId,
        place: Place,
        (wait, address): (Duration, SocketAddr),
        now: Instant,
    ) -> Option<()> {
        let Place { peer, group, member } = place;
        let id = PathId { peer, group, member };
        let known = self.config.rendezvous == Some(from.peer) && self.config.is_met(id);
        if !known || from.member != member {
            return None;
        }
        let link = self.link_of(from).filter(|link| link.is_client && !link.relayed)?;
        let (at, rtt) = (link.at.0, link.connection.rtt());
        let local = self.endpoints.get(&at)?.socket.address.ip();
        let path = self.config.path(id)?;
        // What the rendezvous has seen is a NAT's mapping for this address and no other.
        if path.local != Some(local) || local.is_ipv4() != address.is_ipv4() {
            return None;
        }
        let start = now + wait.saturating_sub(rtt / 2);
        let state = self.peers.group_mut(peer, group)?.members.get_mut(member.into())?;
        if !state.meeting.introduce(start, now) {
            return None;
        }
        self.rendezvous_counters(from)?.introductions += 1;
        self.rendezvous.introductions.push_back((id, address));
        self.rendezvous.next = Some(self.rendezvous.next.map_or(start, |at| at.min(start)));
        Some(())
    }

    /// Looks after the paths whose peers the rendezvous introduces.
    pub(super) fn meet(&mut self, now: Instant) {
        let Some(rendezvous) = self.config.rendezvous else { return };
        if rendezvous == self.config.id {
            self.introduce_again(now);
            return;
        }
        let (mut asking, mut relayed) = (Vec::new(), Vec::new());
        for peer in self.peers.iter_mut().filter(|peer| peer.config.id != rendezvous) {
            for group in &mut peer.groups {
                let paths = (0..).zip(&group.config.paths).zip(group.members.iter_mut());
                let met = paths.filter(|((_, path), _)| path.remote.is_none());
                for ((member, path), state) in met {
                    let link = state.link.as_ref();
                    let works = |link: &Link| link.path.get().state(now) != State::Down;
                    let direct = link.is_some_and(|link| !link.relayed && works(link));
                    state.meeting.note(direct, now);
                    let Some(local) = path.local.filter(|_| peer.we_connect) else { continue };
                    let id = PathId { peer: peer.config.id, group: group.config.id, member };
                    if state.meeting.wants_introduction(now) {
                        asking.push((id, local));
                    }
                    relayed.push((id, state.meeting.wants_relay(now)));
                }
            }
        }
        for (id, local) in asking {
            self.ask(rendezvous, id, local);
        }
        self.relay_paths(&relayed, now);
    }

    /// Asks the rendezvous for an introduction, on a connection from the same address and port.
    fn ask(&mut self, rendezvous: u16, path: PathId, local: IpAddr) {
        let PathId { peer, group, member } = path;
        let Some(all) = self.peers.by_id_mut(rendezvous) else { return };
        let able = all.groups.iter_mut().filter(|group| group.takes(Capabilities::RENDEZVOUS));
        for link in able.filter_map(|group| group.link_mut(member)) {
            let address = self.endpoints.get(&link.at.0).map(|at| at.socket.address.ip());
            if link.is_client && !link.relayed && address == Some(local) {
                let message = Message::Request(Place { peer, group, member });
                link.tell(message);
                return;
            }
        }
    }

    /// Sends on paths that are being opened.
    pub(super) fn open_paths(&mut self, now: Instant) {
        let mut due = Vec::new();
        for (number, endpoint) in self.endpoints.iter().filter(|(_, endpoint)| endpoint.bound) {
            let purpose = endpoint.socket.purpose;
            let Some(id) = purpose.path().filter(|id| self.config.is_met(*id)) else { continue };
            let Some(group) = self.peers.group_mut(id.peer, id.group) else { continue };
            let Some(member) = group.members.get_mut(id.member.into()) else { continue };
            if !endpoint.is_relayed() && member.meeting.opens(now) {
                due.push((*number, purpose));
            }
        }
        for (number, purpose) in due {
            self.open_path(number, purpose, now);
        }
        let members = self.peers.groups_mut().flat_map(|group| group.members.iter_mut());
        let next = members.filter_map(|member| member.meeting.poll_timeout()).min();
        // Those that are overdue wait for their sockets.
        self.rendezvous.next = next.filter(|at| *at > now);
    }

    /// The end that connects sends an Initial, the other one something that opens its NAT for that.
    fn open_path(&mut self, number: usize, purpose: Purpose, now: Instant) {
        match purpose {
            Purpose::Connector { path, .. } => {
                let idle = self.endpoints.get(&number).is_some_and(Endpoint::is_idle);
                let group = self.peers.group_mut(path.peer, path.group);
                let member = group.and_then(|group| group.members.get_mut(path.member.into()));
                if let Some(member) = member.filter(|_| idle) {
                    member.retry = Retry::default();
                    self.connect(number, path, now);
                }
            }
            Purpose::Responder { remote, .. } => {
                let transmit = Transmit {
                    destination: remote,
                    ecn: None,
                    size: OPENING.len(),
                    segment_size: None,
                    src_ip: None,
                };
                self.responses.push_back((number, transmit, OPENING.to_vec()));
            }
            Purpose::Listener { .. } | Purpose::Relayed { .. } => {}
        }
    }
}
