//! What the control API is told.

use std::time::{Duration, Instant};

use hawser_multipath::State;

use super::{Quic, group::Group, link::Link};
use crate::{
    counters::GroupCounters,
    status::{
        Counters, GroupStatus, NumberedCounters, PathStatus, PeerCounters, PeerStatus, Status,
    },
};

impl Quic {
    pub(super) fn status(&mut self, now: Instant) -> Status {
        let peers = self.peers.values().map(|peer| PeerStatus {
            branch: peer.config.branch.clone(),
            up: peer.groups.values().any(Group::is_up),
            groups: peer
                .groups
                .values()
                .map(|group| self.group_status(peer.config.id, group, now))
                .collect(),
        });
        let peers = peers.collect();
        let branch = self.config.document.branch.clone();
        Status::new(branch, now - self.started, self.tun.offload(), peers)
    }

    fn group_status(&self, peer: u16, group: &Group, now: Instant) -> GroupStatus {
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
            flows: self.places.flows(peer, group.config.id),
            lane: group.lane.peer.is_some(),
            lane_flows: group.lane.flows,
            paths: self.paths(group, now),
        }
    }

    fn paths(&self, group: &Group, now: Instant) -> Vec<PathStatus> {
        let total: u64 = group.members.iter().map(|member| member.given).sum();
        let pairs = (0_u8..).zip(group.members.iter().zip(&group.config.paths));
        let status = pairs.map(|(number, (member, path))| {
            let known = member.link.and_then(|(socket, handle)| {
                self.sockets.get(&socket).and_then(|socket| socket.links.get(&handle))
            });
            let share = member.given as f64 / total.max(1) as f64;
            let (local, remote) = (path.local.to_string(), path.remote.to_string());
            let blank = PathStatus { member: number, local, remote, share, ..PathStatus::dark() };
            known.map_or(blank.clone(), |link| measured(blank, link, now))
        });
        status.collect()
    }

    pub(super) fn counters(&self) -> Counters {
        let peers = self.peers.values().map(|peer| PeerCounters {
            branch: peer.config.branch.clone(),
            groups: peer.groups.values().map(group_counters).collect(),
        });
        let (tun, strangers) = (self.counters, self.strangers);
        Counters { tun, strangers, peers: peers.collect(), switch: None }
    }
}

fn group_counters(group: &Group) -> NumberedCounters {
    let order = group.resequencer.counters().into();
    let counters = GroupCounters { order, lane: group.lane.counters, ..group.counters };
    NumberedCounters { id: group.config.id, counters }
}

/// Fills in what is known of a path that has a connection.
fn measured(blank: PathStatus, link: &Link, now: Instant) -> PathStatus {
    let path = link.path.get();
    let view = path.view(now, 0, 0);
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let totals = path.totals();
    PathStatus {
        state: name(view.state),
        rate_bps: path.congestion().rate().bits_per_second(),
        rtt_ms: path.rtt().map(ms),
        rtt_min_ms: path.congestion().base().map(ms),
        jitter_ms: ms(path.jitter()),
        loss: path.loss(now),
        in_flight_bytes: path.in_flight(),
        queued_bytes: view.queued,
        window_bytes: path.window(),
        mtu: link.connection.current_mtu(),
        sent_bytes: totals.sent,
        lost_bytes: totals.lost,
        ..blank
    }
}

fn name(state: State) -> &'static str {
    match state {
        State::Probing => "probing",
        State::Up => "up",
        State::Degraded => "degraded",
        State::Down => "down",
        State::Standby => "standby",
    }
}

impl PathStatus {
    /// Of a path without a connection.
    fn dark() -> Self {
        Self {
            member: 0,
            local: String::new(),
            remote: String::new(),
            state: name(State::Probing),
            rate_bps: 0.0,
            rtt_ms: None,
            rtt_min_ms: None,
            jitter_ms: 0.0,
            loss: 0.0,
            in_flight_bytes: 0,
            queued_bytes: 0,
            window_bytes: 0,
            mtu: 0,
            sent_bytes: 0,
            lost_bytes: 0,
            share: 0.0,
        }
    }
}
