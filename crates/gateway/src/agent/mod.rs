//! The multipath agent with the `mptcp` transport: one event loop between the TUN device and one
//! connection for each path group of each peer.

mod accept;
mod forward;
mod group;
mod paths;
mod reload;
pub(super) mod watch;

use std::{
    io,
    time::{Duration, Instant},
};

use hawser_netdev::{
    mptcp::{Manager, Tuning},
    poll::{Interest, Poller, Ready},
    tun::Tun,
};
use hawser_tls::Identity;

use self::{accept::Entrance, forward::Staging};
use super::{
    command::{Command, Inbox},
    config::Config,
    counters::{StrangerCounters, TunCounters},
    peer::{Group, Peer},
    placement::Places,
    status::{Counters, GroupStatus, NumberedCounters, PeerCounters, PeerStatus, Status},
    table::Table,
};

/// How often timers are looked at.
const TICK: Duration = Duration::from_millis(50);

/// What a descriptor belongs to, as the poller knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Tun,
    Inbox,
    Manager,
    Listener(usize),
    Stranger(usize),
    Group(usize, usize),
}

impl Token {
    fn pack(self) -> u64 {
        let (kind, a, b) = match self {
            Self::Tun => (0, 0, 0),
            Self::Inbox => (1, 0, 0),
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
            0 => Self::Tun,
            1 => Self::Inbox,
            2 => Self::Listener(a),
            3 => Self::Stranger(a),
            4 => Self::Group(a, b),
            _ => Self::Manager,
        }
    }
}

/// The agent: all that its event loop owns.
pub(super) struct Agent {
    config: Config,
    identity: Option<Identity>,
    tuning: Tuning,
    /// Who makes subflows; None where the kernel does, by its endpoints.
    manager: Option<Manager>,
    started: Instant,
    tun: Tun,
    poller: Poller,
    inbox: Inbox,
    peers: Vec<Peer>,
    places: Places,
    table: Table,
    entrance: Entrance,
    staging: Staging,
    counters: TunCounters,
    strangers: StrangerCounters,
    /// ICMP errors that may still be sent before the next tick.
    icmp_budget: u32,
    stopping: bool,
}

impl Agent {
    /// Takes over a TUN device; listens where others connect to us.
    pub(super) fn new(
        config: Config,
        identity: Option<Identity>,
        tuning: Tuning,
        tun: Tun,
        inbox: Inbox,
    ) -> io::Result<Self> {
        let poller = Poller::new()?;
        poller.add(&tun, Token::Tun.pack(), Interest::Read)?;
        poller.add(&inbox.waker, Token::Inbox.pack(), Interest::Read)?;
        let manager = Manager::open()?;
        if let Some(manager) = &manager {
            poller.add(manager, Token::Manager.pack(), Interest::Read)?;
        }
        let mut entrance = Entrance::default();
        entrance.listen(&config, &poller)?;
        let (own_id, queue) = (config.document.id, config.document.queue_bytes as usize);
        let peers: Vec<_> =
            config.peers.iter().map(|peer| Peer::new(peer.clone(), own_id, queue)).collect();
        Ok(Self {
            table: Table::new(config.peers.iter()),
            places: Places::new(config.document.placement, Instant::now()),
            config,
            identity,
            tuning,
            manager,
            started: Instant::now(),
            tun,
            poller,
            inbox,
            peers,
            entrance,
            staging: Staging::default(),
            counters: TunCounters::default(),
            strangers: StrangerCounters::default(),
            icmp_budget: 0,
            stopping: false,
        })
    }

    /// Carries packets until told to stop.
    pub(super) fn run(mut self) -> io::Result<()> {
        let mut ready = Vec::new();
        let mut next_tick = Instant::now();
        while !self.stopping {
            let now = Instant::now();
            if now >= next_tick {
                self.tick(now);
                next_tick = now + TICK;
            }
            self.poller.wait(next_tick.saturating_duration_since(now), &mut ready)?;
            let now = Instant::now();
            for event in &ready {
                self.dispatch(*event, now)?;
            }
        }
        Ok(())
    }

    fn dispatch(&mut self, event: Ready, now: Instant) -> io::Result<()> {
        match Token::unpack(event.token) {
            Token::Tun => self.forward(now)?,
            Token::Inbox => self.obey(now),
            Token::Manager => self.hear_news(),
            Token::Listener(index) => self.accept(index, now),
            Token::Stranger(index) => self.hear(index, now),
            Token::Group(peer, group) => self.serve(peer, group, event, now),
        }
        Ok(())
    }

    /// Looks at all timers.
    fn tick(&mut self, now: Instant) {
        self.icmp_budget = forward::ICMP_BUDGET;
        self.entrance.expire(now, &mut self.strangers);
        self.places.sweep(now, TICK);
        for peer in 0..self.peers.len() {
            for group in 0..self.peers.get(peer).map_or(0, |peer| peer.groups.len()) {
                self.tend(peer, group, now);
                self.watch(peer, group, now);
            }
        }
    }

    fn obey(&mut self, now: Instant) {
        self.inbox.waker.clear();
        while let Some(command) = self.inbox.next() {
            // Who asked may have gone away meanwhile.
            match command {
                Command::Status(reply) => drop(reply.send(self.status(now))),
                Command::Counters(reply) => drop(reply.send(self.counters())),
                Command::Apply(apply, reply) => drop(reply.send(self.apply(*apply, now))),
                Command::Stop => self.stopping = true,
            }
        }
    }

    fn status(&self, now: Instant) -> Status {
        let peers = self.peers.iter().map(|peer| PeerStatus {
            branch: peer.config.branch.clone(),
            up: peer.groups.iter().any(|group| group.up),
            groups: peer.groups.iter().map(|group| self.group_status(peer, group)).collect(),
        });
        let branch = self.config.document.branch.clone();
        Status::new(branch, now - self.started, self.tun.offload(), peers.collect())
    }

    fn counters(&self) -> Counters {
        let peers = self.peers.iter().map(|peer| PeerCounters {
            branch: peer.config.branch.clone(),
            groups: peer
                .groups
                .iter()
                .map(|group| NumberedCounters { id: group.config.id, counters: group.counters })
                .collect(),
        });
        let peers = peers.collect();
        Counters { tun: self.counters, strangers: self.strangers, peers, switch: None }
    }

    fn group_status(&self, peer: &Peer, group: &Group) -> GroupStatus {
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
            flows: self.places.flows(peer.config.id, group.config.id),
            lane: false,
            lane_flows: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_survive_the_poller() {
        let all = [
            Token::Tun,
            Token::Inbox,
            Token::Manager,
            Token::Listener(3),
            Token::Stranger(63),
            Token::Group(13, 15),
        ];
        for token in all {
            assert_eq!(Token::unpack(token.pack()), token);
        }
    }
}
