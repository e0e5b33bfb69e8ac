//! Status and counters for the control API.

use std::{
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use hawser_multipath::State;
use hawser_tunnel::{GroupView, PathView, Stream, Tunnel};

use crate::status::{
    GroupStatus, NumberedCounters, PathStatus, PeerCounters, PeerStatus, WaitingPath,
};

pub(super) fn status<S: Stream>(tunnel: &Tunnel<S>, now: Instant) -> Vec<PeerStatus> {
    let rendezvous = tunnel.rendezvous();
    let peer = |(peer, groups): (&hawser_tunnel::config::Peer, _)| {
        let groups: Vec<GroupView<'_>> = Iterator::collect(groups);
        PeerStatus {
            branch: peer.branch.clone(),
            up: groups.iter().any(GroupView::is_up),
            groups: groups.iter().map(|group| group_status(group, rendezvous, now)).collect(),
        }
    };
    tunnel.report().map(peer).collect()
}

fn group_status(group: &GroupView<'_>, rendezvous: Option<&str>, now: Instant) -> GroupStatus {
    let remote = group.config().paths.first().and_then(|path| path.remote);
    let (tcp_proxy, tcp_proxy_flows) = group.proxy();
    GroupStatus {
        id: group.config().id,
        up: group.is_up(),
        subflows: u32::try_from(group.connections()).unwrap_or(u32::MAX),
        reconnects: group.reconnects(),
        remote: remote.filter(|_| group.is_up()).map(|remote| remote.to_string()),
        encrypted: group.is_up(),
        queued_bytes: usize::try_from(group.queued_bytes()).unwrap_or(usize::MAX),
        flows: group.flows,
        tcp_proxy,
        tcp_proxy_flows,
        mtu: group.mtu(),
        waiting: rendezvous.map_or_else(Vec::new, |name| waiting(group, name)),
        wire_version: group.wire_version(),
        trains: group.takes_trains(),
        paths: paths(group, rendezvous, now),
    }
}

/// Paths to which the rendezvous is to introduce this gateway, and that have no connection.
fn waiting(group: &GroupView<'_>, rendezvous: &str) -> Vec<WaitingPath> {
    let paths = (0_u8..).zip(group.paths()).filter(|(_, path)| path.awaits_introduction());
    let waiting = paths.map(|(member, path)| {
        let reason = match path.config.introduced() {
            None => format!("waits for an introduction by {rendezvous}"),
            Some(address) => format!("no answer from {address}, told by {rendezvous}"),
        };
        WaitingPath { member, reason }
    });
    waiting.collect()
}

fn paths(group: &GroupView<'_>, rendezvous: Option<&str>, now: Instant) -> Vec<PathStatus> {
    let total: u64 = group.paths().map(|path| path.assigned_bytes()).sum();
    let status = (0_u8..).zip(group.paths()).map(|(member, path)| {
        let share = path.assigned_bytes() as f64 / total.max(1) as f64;
        let text = |address: Option<IpAddr>| address.map_or_else(String::new, |a| a.to_string());
        let told = path.config.introduced().as_ref().map(SocketAddr::to_string);
        let (local, remote) = (text(path.config.local), text(path.config.remote));
        let unmeasured = PathStatus {
            member,
            local,
            remote: told.unwrap_or(remote),
            reflexive: path.observed().as_ref().map(SocketAddr::to_string),
            via: rendezvous.filter(|_| path.is_relayed()).map(str::to_owned),
            share,
            ..PathStatus::unconnected()
        };
        measured(unmeasured.clone(), &path, now).unwrap_or(unmeasured)
    });
    status.collect()
}

pub(super) fn counters<S: Stream>(tunnel: &Tunnel<S>) -> Vec<PeerCounters> {
    let numbered = |group: GroupView<'_>| NumberedCounters {
        id: group.config().id,
        counters: group.counters(),
    };
    let peers = tunnel.report().map(|(peer, groups)| PeerCounters {
        branch: peer.branch.clone(),
        groups: groups.map(numbered).collect(),
    });
    peers.collect()
}

/// Adds what is known of a path that has a connection.
fn measured(unmeasured: PathStatus, path: &PathView<'_>, now: Instant) -> Option<PathStatus> {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    path.measured(now, |path, view, mtu| {
        let totals = path.totals();
        PathStatus {
            state: name(view.state),
            rate_bps: path.congestion().rate().bits_per_second(),
            rtt_ms: path.rtt().map(ms),
            rtt_min_ms: path.congestion().base_rtt().map(ms),
            jitter_ms: ms(path.jitter()),
            loss: path.loss(now),
            in_flight_bytes: path.in_flight(),
            queued_bytes: view.queued,
            window_bytes: path.window(),
            mtu,
            sent_bytes: totals.sent,
            lost_bytes: totals.lost,
            ..unmeasured
        }
    })
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
    /// Status of a path without a connection.
    fn unconnected() -> Self {
        Self {
            member: 0,
            local: String::new(),
            remote: String::new(),
            reflexive: None,
            via: None,
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
