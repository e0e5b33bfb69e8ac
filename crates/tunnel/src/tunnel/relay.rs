//! Paths that lead through the rendezvous, where no direct connection can be opened: it passes on the QUIC packets of two
//! gateways within its connections to them, and can read none (docs/design/addresses.md).

use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr},
    time::Instant,
};

use bytes::BytesMut;
use hawser_multipath::State;
use hawser_wire::{
    rendezvous::{Meeting as Place, Relayed},
    tunnel::Capabilities,
};

use super::{
    endpoint::{Endpoint, Purpose, Socket},
    input::Source,
    state::Tunnel,
};
use crate::{
    group::Group,
    path::{Link, MAX_DATAGRAM, MIN_DATAGRAM, PathId},
    proxy::Stream,
};

/// Numbers of endpoints without a socket; those of sockets are lower.
const FIRST_NUMBER: usize = 1 << 30;

/// The address that stands for the other end of a relayed path in QUIC. It is reserved (RFC 4291 section 2.4), so
/// nobody has it; the limits of strangers count each peer as a source of its own.
pub(super) fn stand_in(path: PathId) -> SocketAddr {
    let PathId { peer, group, member } = path;
    let address = Ipv6Addr::new(0x0100, 0, 0, peer, 0, 0, group.into(), member.into());
    SocketAddr::new(IpAddr::V6(address), 1)
}

impl<S: Stream> Tunnel<S> {
    /// Opens connections through the rendezvous for paths that need one, and forgets those of others.
    pub(super) fn relay_paths(&mut self, wanted: &[(PathId, bool)], now: Instant) {
        for (path, wants) in wanted.iter().copied() {
            let number = self.relayed_endpoint(path);
            let idle = number.and_then(|number| self.endpoints.get(&number)).map(Endpoint::is_idle);
            match (wants, number, idle) {
                (true, None, _) => {
                    if let Some(number) = self.add_relayed_endpoint(path, now) {
                        self.connect(number, path, now);
                    }
                }
                (true, Some(number), Some(true)) => self.connect(number, path, now),
                (false, Some(number), Some(true)) => drop(self.endpoints.remove(&number)),
                _ => {}
            }
        }
    }

    /// Number of the endpoint of a path through the rendezvous.
    fn relayed_endpoint(&self, path: PathId) -> Option<usize> {
        let all = self.endpoints.range(FIRST_NUMBER..);
        let of_path = |purpose| purpose == Purpose::Relayed { path };
        all.map(|(number, at)| (*number, at.socket.purpose))
            .find(|(_, purpose)| of_path(*purpose))
            .map(|(number, _)| number)
    }

    /// The path of an endpoint whose datagrams go through the rendezvous.
    pub(super) fn relayed_path(&self, number: usize) -> Option<PathId> {
        if number < FIRST_NUMBER {
            return None;
        }
        self.endpoints.get(&number)?.socket.purpose.path()
    }

    /// None: the rendezvous cannot be reached, or not by large enough datagrams.
    fn add_relayed_endpoint(&mut self, path: PathId, now: Instant) -> Option<usize> {
        let rendezvous = self.config.rendezvous?;
        let max = self.link_towards(rendezvous, path.member, now)?.relay_max();
        let max = u16::try_from(max).unwrap_or(u16::MAX).min(MAX_DATAGRAM);
        if max < MIN_DATAGRAM {
            return None;
        }
        let address = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0);
        let socket = Socket { address, interface: None, purpose: Purpose::Relayed { path } };
        let endpoint = self.endpoint(socket, (1, max), now);
        let number = (self.rendezvous.last_endpoint + 1).max(FIRST_NUMBER);
        self.rendezvous.last_endpoint = number;
        self.endpoints.insert(number, endpoint);
        Some(number)
    }

    /// The best direct connection to a peer that takes relayed datagrams: on this member path, or on one that works.
    fn link_towards(&mut self, peer: u16, member: u8, now: Instant) -> Option<&mut Link> {
        let groups = self.peers.by_id_mut(peer)?.groups.iter_mut();
        let able = groups.filter(|group| group.takes(Capabilities::RENDEZVOUS));
        let links = able.flat_map(Group::links_mut).filter(|link| !link.relayed);
        links.min_by_key(|link| {
            let works = link.path.get().state(now) == State::Up;
            (!works, link.id.is_none_or(|id| id.member != member))
        })
    }

    /// Sends a datagram of a path through the rendezvous. It is lost if there is no room.
    pub(super) fn send_relayed(
        &mut self,
        path: PathId,
        datagrams: &[u8],
        one: usize,
        now: Instant,
    ) {
        let PathId { peer, group, member } = path;
        let meeting = Place { peer, group, member };
        let Some(rendezvous) = self.config.rendezvous else { return };
        let Some(link) = self.link_towards(rendezvous, member, now) else { return };
        for datagram in datagrams.chunks(one.max(1)) {
            link.relay(now, Relayed { meeting, datagram }.emit().into());
        }
    }

    /// A datagram of a path that leads through this gateway, or from a peer through the rendezvous. None: it is ignored.
    pub(super) fn handle_relayed(
        &mut self,
        from: PathId,
        relayed: Relayed<'_>,
        now: Instant,
    ) -> Option<()> {
        if self.config.rendezvous == Some(self.config.id) {
            return self.pass_on(from, relayed, now);
        }
        let Place { peer, group, member } = relayed.meeting;
        let path = PathId { peer, group, member };
        if self.config.rendezvous != Some(from.peer) || !self.config.is_met(path) {
            return None;
        }
        let listens = self.config.id > peer;
        let number = match self.relayed_endpoint(path) {
            None if listens => self.add_relayed_endpoint(path, now)?,
            known => known?,
        };
        let source = Source { remote: stand_in(path), local: None, ecn: None, received: None };
        self.handle_input(now, number, source, BytesMut::from(relayed.datagram));
        Some(())
    }

    /// At the rendezvous: passes a datagram on to the gateway for which it is.
    fn pass_on(&mut self, from: PathId, relayed: Relayed<'_>, now: Instant) -> Option<()> {
        let Place { peer, group, member } = relayed.meeting;
        if peer == from.peer {
            return None;
        }
        let meeting = Place { peer: from.peer, group, member };
        let bytes = Relayed { meeting, datagram: relayed.datagram }.emit();
        let (len, link) = (bytes.len() as u64, self.link_towards(peer, member, now));
        let sent = link.is_some_and(|link| link.relay(now, bytes.into()));
        let counters = self.rendezvous_counters(from)?;
        if sent {
            counters.relayed += 1;
            counters.relayed_bytes += len;
        } else {
            counters.not_relayed += 1;
        }
        Some(())
    }
}
