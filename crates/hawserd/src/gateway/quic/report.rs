//! What the control API is told.

use std::time::Instant;

use super::{Quic, group::Group};
use crate::gateway::status::{
    Counters, GroupStatus, NumberedCounters, PeerCounters, PeerStatus, Status,
};

impl Quic {
    pub(super) fn status(&mut self, now: Instant) -> Status {
        let peers = self.peers.values().map(|peer| PeerStatus {
            branch: peer.config.branch.clone(),
            up: peer.groups.values().any(Group::is_up),
            groups: peer.groups.values().map(group_status).collect(),
        });
        let peers = peers.collect();
        let branch = self.config.document.branch.clone();
        Status::new(branch, now - self.started, self.tun.offload(), peers)
    }

    pub(super) fn counters(&self) -> Counters {
        let peers = self.peers.values().map(|peer| PeerCounters {
            branch: peer.config.branch.clone(),
            groups: peer
                .groups
                .values()
                .map(|group| NumberedCounters { id: group.config.id, counters: group.counters })
                .collect(),
        });
        Counters { tun: self.counters, strangers: self.strangers, peers: peers.collect(), switch: None }
    }
}

fn group_status(group: &Group) -> GroupStatus {
    let up = group.members.iter().filter(|member| member.link.is_some()).count();
    let made: u64 = group.members.iter().map(|member| member.connections).sum();
    let remote = group.config.paths.first().map(|path| path.remote.to_string());
    GroupStatus {
        id: group.config.id,
        up: group.is_up(),
        subflows: u32::try_from(up).unwrap_or(u32::MAX),
        reconnects: made.saturating_sub(up as u64),
        remote: remote.filter(|_| group.is_up()),
        encrypted: group.is_up(),
        queued_bytes: usize::try_from(group.backlog.bytes()).unwrap_or(usize::MAX),
    }
}
