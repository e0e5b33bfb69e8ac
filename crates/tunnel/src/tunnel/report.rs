//! What is told of the state.

use std::time::Instant;

use hawser_multipath::{Path as Model, View};

use super::state::Tunnel;
use crate::{
    config,
    counters::{GroupCounters, StrangerCounters},
    group::{Group, Member},
    placement::PathGroup,
    proxy::Stream,
};

/// A path group.
#[derive(Clone, Copy)]
pub struct GroupView<'a> {
    group: &'a Group,
    /// Flows that are placed on it.
    pub flows: u32,
}

/// What is known of a member path that has a connection.
#[derive(Clone, Copy)]
pub struct PathView<'a> {
    member: &'a Member,
    /// As configured.
    pub config: config::Path,
}

impl<S: Stream> Tunnel<S> {
    /// The peers and their path groups.
    pub fn report(
        &self,
    ) -> impl Iterator<Item = (&config::Peer, impl Iterator<Item = GroupView<'_>>)> {
        self.peers.iter().map(|peer| {
            let flows = |group: &Group| self.peers.flows(peer.config.id, group.config.id);
            let view = move |group| GroupView { flows: flows(group), group };
            (&peer.config, peer.groups.iter().map(view))
        })
    }

    /// Connections from others than peers.
    #[must_use]
    pub fn strangers(&self) -> StrangerCounters {
        self.strangers
    }
}

impl<'a> GroupView<'a> {
    /// As configured.
    #[must_use]
    pub fn config(&self) -> &'a config::Group {
        &self.group.config
    }

    /// Whether a path is up.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.group.is_up()
    }

    /// Connections that its paths have, and that they have had so far.
    #[must_use]
    pub fn connections(&self) -> (usize, u64) {
        let made = self.group.members.iter().map(|member| member.connections);
        (self.group.links().count(), made.sum())
    }

    /// Bytes that wait.
    #[must_use]
    pub fn queued_bytes(&self) -> u64 {
        self.group.queued()
    }

    /// Whether the peer takes part in the TCP proxy, and connections that are carried so.
    #[must_use]
    pub fn proxy(&self) -> (bool, u32) {
        (self.group.proxy.peer.is_some(), self.group.proxy.flows)
    }

    /// What it counts.
    #[must_use]
    pub fn counters(&self) -> GroupCounters {
        let order = self.group.resequencer.counters().into();
        GroupCounters { order, lane: self.group.proxy.counters, ..self.group.counters }
    }

    /// Its member paths.
    pub fn paths(&self) -> impl Iterator<Item = PathView<'a>> + use<'a> {
        let configs = self.group.config.paths.iter();
        let pairs = self.group.members.iter().zip(configs);
        pairs.map(|(member, config)| PathView { member, config: *config })
    }
}

impl PathView<'_> {
    /// Bytes given to it.
    #[must_use]
    pub fn given(&self) -> u64 {
        self.member.given
    }

    /// The UDP payload that it takes, and what `read` finds in its model; None without a connection.
    pub fn measured<T>(
        &self,
        now: Instant,
        read: impl FnOnce(&Model, View, u16) -> T,
    ) -> Option<T> {
        let link = self.member.link.as_ref()?;
        let path = link.path.get();
        let view = path.view(now, 0, 0);
        Some(read(&path, view, link.connection.current_mtu()))
    }
}
