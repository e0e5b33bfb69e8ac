//! Status and counters.

use std::{net::SocketAddr, time::Instant};

use hawser_multipath::{Path as Model, State, View};
use hawser_wire::tunnel::Capabilities;

use super::state::Tunnel;
use crate::{
    config,
    counters::{GroupCounters, UnauthenticatedCounters},
    group::{Group, Member},
    path::{Link, PathId},
    placement::PathGroup,
    proxy::Stream,
};

/// Status of a path group.
#[derive(Clone, Copy)]
pub struct GroupView<'a> {
    group: &'a Group,
    /// Whether the rendezvous introduces its peer, to which this side then connects.
    meets: bool,
    /// Flows placed on it.
    pub flows: u32,
}

/// Status of a member path.
#[derive(Clone, Copy)]
pub struct PathView<'a> {
    member: &'a Member,
    meets: bool,
    /// Its configuration.
    pub config: config::Path,
}

impl<S: Stream> Tunnel<S> {
    /// Peers and their path groups.
    pub fn report(
        &self,
    ) -> impl Iterator<Item = (&config::Peer, impl Iterator<Item = GroupView<'_>>)> {
        let own = self.config.id;
        let rendezvous = self.config.rendezvous.filter(|id| *id != own);
        self.peers.iter().map(move |peer| {
            let meets = peer.we_connect && rendezvous.is_some_and(|id| id != peer.config.id);
            let flows = |group: &Group| self.peers.flows(peer.config.id, group.config.id);
            let view = move |group| GroupView { flows: flows(group), meets, group };
            (&peer.config, peer.groups.iter().map(view))
        })
    }

    /// Paths that this side connects and on which nothing arrives.
    #[must_use]
    pub fn silent_paths(&self, now: Instant) -> Vec<PathId> {
        let silent = |member: &Member| {
            let link = member.link.as_ref();
            link.is_none_or(|link| link.path.get().state(now) == State::Down)
        };
        let groups = self
            .peers
            .iter()
            .filter(|peer| peer.we_connect)
            .flat_map(|peer| peer.groups.iter().map(|group| (peer.config.id, group)));
        let paths = groups.flat_map(|(peer, group)| {
            let id = move |member| PathId { peer, group: group.config.id, member };
            (0..).map(id).zip(group.members.iter())
        });
        paths.filter(|(_, member)| silent(member)).map(|(id, _)| id).collect()
    }

    /// Name of the peer that introduces this gateway to others.
    #[must_use]
    pub fn rendezvous(&self) -> Option<&str> {
        let peer = self.peers.by_id(self.config.rendezvous?)?;
        Some(&peer.config.branch)
    }

    /// Counters of unauthenticated connections.
    #[must_use]
    pub fn unauthenticated(&self) -> UnauthenticatedCounters {
        self.unauthenticated
    }
}

impl<'a> GroupView<'a> {
    /// Its configuration.
    #[must_use]
    pub fn config(&self) -> &'a config::Group {
        &self.group.config
    }

    /// Whether any path is up.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.group.is_up()
    }

    /// Current connections of its paths.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.group.links().count()
    }

    /// Connections that took another's place; one that ended counts when its path has the next.
    #[must_use]
    pub fn reconnects(&self) -> u64 {
        let again = self.group.members.iter().map(|member| member.connections.saturating_sub(1));
        again.sum()
    }

    /// The oldest wire version of its connections.
    #[must_use]
    pub fn wire_version(&self) -> Option<u8> {
        self.group.links().filter_map(Link::wire_version).min()
    }

    /// Whether the peer takes trains.
    #[must_use]
    pub fn takes_trains(&self) -> bool {
        self.group.is_up() && self.group.takes(Capabilities::TRAINS)
    }

    /// Bytes queued.
    #[must_use]
    pub fn queued_bytes(&self) -> u64 {
        self.group.queued()
    }

    /// Whether the peer takes part in the TCP proxy, and current connections of it.
    #[must_use]
    pub fn proxy(&self) -> (bool, u32) {
        (self.group.proxy.peer.is_some(), self.group.proxy.flows)
    }

    /// Its counters.
    #[must_use]
    pub fn counters(&self) -> GroupCounters {
        let order = self.group.resequencer.counters().into();
        GroupCounters { order, tcp_proxy: self.group.proxy.counters, ..self.group.counters }
    }

    /// Largest packet that goes whole over every path in use, bytes, once it is known.
    #[must_use]
    pub fn mtu(&self) -> Option<u16> {
        self.group.known_mtu()
    }

    /// Its member paths.
    pub fn paths(&self) -> impl Iterator<Item = PathView<'a>> + use<'a> {
        let configs = self.group.config.paths.iter();
        let pairs = self.group.members.iter().zip(configs);
        let meets = self.meets;
        pairs.map(move |(member, config)| PathView { member, meets, config: *config })
    }
}

impl PathView<'_> {
    /// Where the peer sees this gateway, if it has told.
    #[must_use]
    pub fn observed(&self) -> Option<SocketAddr> {
        self.member.link.as_ref()?.observed
    }

    /// Whether it has no connection, and this side connects once the rendezvous has told where to.
    #[must_use]
    pub fn awaits_introduction(&self) -> bool {
        self.meets && self.config.remote.is_none() && self.member.link.is_none()
    }

    /// Whether it leads through the rendezvous.
    #[must_use]
    pub fn is_relayed(&self) -> bool {
        self.member.link.as_ref().is_some_and(|link| link.relayed)
    }

    /// Bytes of packets assigned to it.
    #[must_use]
    pub fn assigned_bytes(&self) -> u64 {
        self.member.assigned
    }

    /// What `read` extracts from its path model, view and MTU (UDP payload); None without a
    /// connection.
    pub fn measured<T>(
        &self,
        now: Instant,
        read: impl FnOnce(&Model, View, u16) -> T,
    ) -> Option<T> {
        let link = self.member.link.as_ref()?;
        let path = link.path.get();
        let view = path.view(now, 0, 0);
        let view = View { state: self.member.state(&view), ..view };
        Some(read(&path, view, link.connection.current_mtu()))
    }
}
