//! The `mptcp` transport: one connection for each path group of each peer.

mod accept;
mod configure;
mod connection;
mod forward;
mod group;
mod link;
mod paths;
mod queue;
mod stride;
mod watch;

use std::{io, time::Instant};

use hawser_netdev::{
    mptcp::{Manager, Tuning},
    poll::{Interest, Ready},
};
use hawser_tls::Identity;
use hawser_tunnel::{Peer, Peers, counters::StrangerCounters};

use self::{accept::Entrance, forward::Staging, group::Group};
use super::{Host, TICK, Transport};
use crate::{
    config::Config,
    status::{GroupStatus, NumberedCounters, PeerCounters, PeerStatus},
};

/// What a descriptor belongs to, as the poller knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Manager,
    Listener(usize),
    Stranger(usize),
    Group(usize, usize),
}

impl Token {
    fn pack(self) -> u64 {
        let (kind, a, b) = match self {
            Self::Listener(a) => (2, a, 0),
            Self::Stranger(a) => (3, a, 0),
            Self::Group(a, b) => (4, a, b),
            Self::Manager => (5, 0, 0),
        };
        kind << 56 | (a as u64 & 0xfff_ffff) << 28 | (b as u64 & 0xfff_ffff)
    }

    fn unpack(token: u64) -> Self {
        let part = |shift: u32| usize::try_from(token >> shift & 0xfff_ffff).unwrap_or(usize::MAX);
        let (a, b) = (part(28), part(0));
        match token >> 56 {
            2 => Self::Listener(a),
            3 => Self::Stranger(a),
            4 => Self::Group(a, b),
            _ => Self::Manager,
        }
    }
}

/// The transport.
pub(crate) struct Mptcp {
    identity: Option<Identity>,
    tuning: Tuning,
    /// Who makes subflows; None where the kernel does, by its endpoints.
    manager: Option<Manager>,
    peers: Peers<Group>,
    entrance: Entrance,
    staging: Staging,
    strangers: StrangerCounters,
    /// ICMP errors that may still be sent before the next tick.
    icmp_budget: u32,
    next_tick: Instant,
}

impl Mptcp {
    /// Without peers yet.
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
            entrance: Entrance::default(),
            staging: Staging::default(),
            strangers: StrangerCounters::default(),
            icmp_budget: 0,
            next_tick: now,
        })
    }

    /// Looks at all timers.
    fn tick(&mut self, host: &mut Host, now: Instant) {
        self.icmp_budget = forward::ICMP_BUDGET;
        self.entrance.expire(now, &mut self.strangers);
        self.peers.sweep(now, TICK);
        for peer in 0..self.peers.len() {
            for group in 0..self.peers.get(peer).map_or(0, |peer| peer.groups.len()) {
                self.tend(host, peer, group, now);
                self.watch(peer, group, now);
            }
        }
    }

    fn group_status(&self, peer: &Peer<Group>, group: &Group) -> GroupStatus {
        let link = group.link.as_ref().filter(|_| group.up);
        GroupStatus {
            id: group.config.id,
            up: group.up,
            subflows: link.map_or(0, |_| group.watch.present().max(1)),
            reconnects: group.reconnects,
            remote: link
                .and_then(|link| link.stream.peer().ok())
                .map(|address| address.to_string()),
            encrypted: link.is_some_and(|link| link.session().is_some()),
            queued_bytes: group.queue.len(),
            paths: Vec::new(),
            flows: self.peers.flows(peer.config.id, group.config.id),
            lane: false,
            lane_flows: 0,
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

    fn handle_device(&mut self, host: &mut Host, now: Instant) -> io::Result<()> {
        self.forward(host, now)
    }

    fn handle_ready(&mut self, host: &mut Host, event: Ready, now: Instant) {
        match Token::unpack(event.token) {
            Token::Manager => self.hear_news(),
            Token::Listener(index) => self.accept(host, index, now),
            Token::Stranger(index) => self.hear(host, index, now),
            Token::Group(peer, group) => self.serve(host, peer, group, event, now),
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

    fn strangers(&self) -> StrangerCounters {
        self.strangers
    }

    fn close(&mut self, _: &mut Host, _: Instant) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_survive_the_poller() {
        let all = [Token::Manager, Token::Listener(3), Token::Stranger(63), Token::Group(13, 15)];
        for token in all {
            assert_eq!(Token::unpack(token.pack()), token);
        }
    }
}
