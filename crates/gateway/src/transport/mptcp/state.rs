//! State of the transport, and its interface to the agent.

use std::{
    hash::{BuildHasher, RandomState},
    io,
    net::IpAddr,
    time::Instant,
};

use hawser_netdev::{
    mptcp::{Manager, Tuning},
    poll::{Interest, Ready},
};
use hawser_tls::Identity;
use hawser_tunnel::{PathId, Peer, Peers, counters::UnauthenticatedCounters};

use super::{group::Group, listeners::Listeners, staging::Staging, token::Token};
use crate::{
    config::Config,
    status::{GroupStatus, NumberedCounters, PeerCounters, PeerStatus},
    transport::{Host, TICK, Transport},
};

/// ICMP errors sent per tick (RFC 1812 section 4.3.2.8).
const ICMP_BUDGET: u32 = 10;

/// The transport.
pub(crate) struct Mptcp {
    pub(super) identity: Option<Identity>,
    pub(super) tuning: Tuning,
    /// MPTCP path manager of the kernel's netlink interface; None if the kernel manages subflows
    /// itself.
    pub(super) manager: Option<Manager>,
    pub(super) peers: Peers<Group>,
    pub(super) listeners: Listeners,
    pub(super) staging: Staging,
    pub(super) unauthenticated: UnauthenticatedCounters,
    /// ICMP errors that may still be sent before the next tick.
    pub(super) icmp_budget: u32,
    /// Random number for the jitter of reconnections.
    pub(super) random: u64,
    next_tick: Instant,
}

impl Mptcp {
    /// No peers yet.
    pub(crate) fn new(host: &Host, tuning: Tuning) -> io::Result<Self> {
        let manager = Manager::open()?;
        if let Some(manager) = &manager {
            host.poller.add(manager, Token::Manager.pack(), Interest::Read)?;
        }
        let now = Instant::now();
        Ok(Self {
            identity: None,
            tuning,
            manager,
            peers: Peers::new(host.config.document.placement, now),
            listeners: Listeners::default(),
            staging: Staging::default(),
            unauthenticated: UnauthenticatedCounters::default(),
            icmp_budget: 0,
            random: RandomState::new().hash_one(now),
            next_tick: now,
        })
    }

    /// Checks all timers.
    fn tick(&mut self, host: &mut Host, now: Instant) {
        self.icmp_budget = ICMP_BUDGET;
        self.listeners.expire(now, &mut self.unauthenticated);
        self.peers.sweep(now, TICK);
        for peer in 0..self.peers.len() {
            for group in 0..self.peers.get(peer).map_or(0, |peer| peer.groups.len()) {
                self.run_timers(host, peer, group, now);
                self.manage_subflows(peer, group, now);
            }
        }
    }

    fn group_status(&self, peer: &Peer<Group>, group: &Group) -> GroupStatus {
        let link = group.link.as_ref().filter(|_| group.up);
        GroupStatus {
            id: group.config.id,
            up: group.up,
            subflows: link.map_or(0, |_| group.path_manager.present().max(1)),
            reconnects: group.reconnects,
            remote: link
                .and_then(|link| link.stream.peer().ok())
                .map(|address| address.to_string()),
            encrypted: link.is_some_and(|link| link.session().is_some()),
            queued_bytes: group.queue.len(),
            paths: Vec::new(),
            flows: self.peers.flows(peer.config.id, group.config.id),
            tcp_proxy: false,
            tcp_proxy_flows: 0,
            mtu: None,
            waiting: Vec::new(),
            wire_version: None,
            trains: false,
        }
    }
}

impl Transport for Mptcp {
    fn configure(
        &mut self,
        host: &mut Host,
        config: &Config,
        identity: Option<&Identity>,
        now: Instant,
    ) -> io::Result<()> {
        self.reconfigure(host, config, identity, now)
    }

    fn relocate(&mut self, host: &mut Host, now: Instant) {
        self.move_paths(host, now);
    }

    fn problems(&self) -> Vec<(IpAddr, String)> {
        self.listeners.problems.clone()
    }

    fn silent_paths(&self, _: Instant) -> Vec<PathId> {
        let peers = self.peers.iter().filter(|peer| peer.we_connect);
        let groups = peers.flat_map(|peer| peer.groups.iter().map(|group| (peer.config.id, group)));
        let paths = groups.flat_map(|(peer, group)| {
            let id = move |member| PathId { peer, group: group.config.id, member };
            let silent = |place: &usize| !(group.up && group.path_manager.is_answering(*place));
            (0..group.config.paths.len())
                .filter(silent)
                .map(move |place| id(u8::try_from(place).unwrap_or(u8::MAX)))
                .collect::<Vec<_>>()
        });
        paths.collect()
    }

    fn handle_device(&mut self, host: &mut Host, now: Instant) -> io::Result<()> {
        self.forward(host, now)
    }

    fn handle_ready(&mut self, host: &mut Host, event: Ready, now: Instant) {
        match Token::unpack(event.token) {
            Token::Manager => self.on_subflow_event(),
            Token::Listener(index) => self.accept(host, index, now),
            Token::Unauthenticated(index) => self.read_hello(host, index, now),
            Token::Group(peer, group) => self.handle_events(host, peer, group, event, now),
        }
    }

    fn poll_timeout(&mut self, _: Instant) -> Instant {
        self.next_tick
    }

    fn advance(&mut self, host: &mut Host, now: Instant) {
        if now >= self.next_tick {
            self.tick(host, now);
            self.next_tick = now + TICK;
        }
    }

    fn status(&self, _: Instant) -> Vec<PeerStatus> {
        let peers = self.peers.iter().map(|peer| PeerStatus {
            branch: peer.config.branch.clone(),
            up: peer.groups.iter().any(|group| group.up),
            groups: peer.groups.iter().map(|group| self.group_status(peer, group)).collect(),
        });
        peers.collect()
    }

    fn counters(&self) -> Vec<PeerCounters> {
        let of = |group: &Group| NumberedCounters { id: group.config.id, counters: group.counters };
        let peers = self.peers.iter().map(|peer| PeerCounters {
            branch: peer.config.branch.clone(),
            groups: peer.groups.iter().map(of).collect(),
        });
        peers.collect()
    }

    fn unauthenticated(&self) -> UnauthenticatedCounters {
        self.unauthenticated
    }

    fn close(&mut self, _: &mut Host, _: Instant) {}
}
