//! Peers and their path groups.

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use hawser_netdev::mptcp::Probe;

use super::{agent::watch::Watch, config, counters::GroupCounters, link::Link, queue::Queue};

/// First pause before a connection is tried again, and the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// A connection on which nothing was heard for this long is avoided: keepalives come every second.
const SUSPICION: Duration = Duration::from_secs(3);

/// Another branch.
pub(super) struct Peer {
    pub(super) config: config::Peer,
    /// Whether we make the connections, because our number is the lower one.
    pub(super) we_connect: bool,
    pub(super) groups: Vec<Group>,
}

impl Peer {
    pub(super) fn new(config: config::Peer, own_id: u16, queue_bytes: usize) -> Self {
        let groups = config.groups.iter().map(|g| Group::new(g.clone(), queue_bytes)).collect();
        Self { we_connect: own_id < config.id, groups, config }
    }

    /// Whether one of its paths leads to this address.
    pub(super) fn has_remote(&self, address: IpAddr) -> bool {
        let mut paths = self.config.groups.iter().flat_map(|group| &group.paths);
        paths.any(|path| path.remote == address)
    }
}

/// A path group: one connection at most, and what waits for it.
pub(super) struct Group {
    pub(super) config: config::Group,
    pub(super) link: Option<Link>,
    /// Whether the other end has said who it is: packets go.
    pub(super) up: bool,
    pub(super) queue: Queue,
    pub(super) counters: GroupCounters,
    pub(super) retry: Retry,
    /// Connections that were up before the present one.
    pub(super) reconnects: u64,
    pub(super) was_up: bool,
    /// Subflows of the present connection.
    pub(super) watch: Watch,
    /// Probes under way, of the member path at a place.
    pub(super) probes: Vec<(usize, Probe)>,
}

impl Group {
    fn new(config: config::Group, queue_bytes: usize) -> Self {
        let watch = Watch::new(&config.paths, Instant::now());
        Self {
            config,
            link: None,
            up: false,
            queue: Queue::new(queue_bytes),
            counters: GroupCounters::default(),
            retry: Retry::default(),
            reconnects: 0,
            was_up: false,
            watch,
            probes: Vec::new(),
        }
    }

    /// Whether packets of flows should take it: it is up, what is sent arrives, and the other end was heard
    /// lately.
    pub(super) fn carries(&self, now: Instant) -> bool {
        let heard = self.link.as_ref().map(|link| link.heard);
        self.up
            && !self.watch.stalled()
            && heard.is_none_or(|heard| now.saturating_duration_since(heard) < SUSPICION)
    }

    /// Lets records wait for the connection; counts those that do not fit.
    pub(super) fn enqueue(&mut self, records: &[u8], now: Instant) {
        let dropped = self.queue.push(records, now);
        let drops = &mut self.counters.drops;
        *(if self.up { &mut drops.queue_full } else { &mut drops.peer_down }) += dropped;
    }

    /// The path that the next attempt takes: another one each time.
    pub(super) fn next_path(&self) -> Option<config::Path> {
        let paths = &self.config.paths;
        let turn = usize::try_from(self.retry.attempts).unwrap_or(0);
        paths.get(turn.checked_rem(paths.len())?).copied()
    }

    /// The connection stands.
    pub(super) fn set_up(&mut self, now: Instant) {
        self.watch = Watch::new(&self.config.paths, now);
        self.probes.clear();
        self.reconnects += u64::from(self.was_up);
        self.was_up = true;
        self.up = true;
        self.retry = Retry::default();
    }
}

/// When to try a connection again: pauses double from attempt to attempt.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Retry {
    attempts: u32,
    at: Option<Instant>,
}

impl Retry {
    /// Whether it is time.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.at.is_none_or(|at| at <= now)
    }

    /// Notes an attempt that failed.
    pub(super) fn failed(&mut self, now: Instant) {
        let (first, longest) = BACKOFF;
        let pause = first.saturating_mul(1 << self.attempts.min(16)).min(longest);
        self.attempts = self.attempts.saturating_add(1);
        self.at = Some(now + pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{parse, tests::sample};

    #[test]
    fn pauses_double_up_to_a_limit() {
        let now = Instant::now();
        let mut retry = Retry::default();
        assert!(retry.is_due(now));
        let mut pauses = Vec::new();
        for _ in 0..40 {
            retry.failed(now);
            pauses.push(retry.at.unwrap() - now);
        }
        let milliseconds: Vec<_> = pauses.iter().map(Duration::as_millis).collect();
        assert_eq!(milliseconds[..4], [100, 200, 400, 800]);
        assert_eq!(milliseconds[39], 5000);
    }

    #[test]
    fn attempts_take_turns_on_the_paths() {
        let peer = parse(&sample()).unwrap().peers.remove(0);
        let mut group = Peer::new(peer, 1, 1000).groups.remove(0);
        let (first, second) = (
            group.config.paths[0],
            config::Path { local: [1, 1, 1, 1].into(), ..group.config.paths[0] },
        );
        group.config.paths.push(second);
        assert_eq!(group.next_path(), Some(first));
        group.retry.failed(Instant::now());
        assert_eq!(group.next_path(), Some(second));
        group.retry.failed(Instant::now());
        assert_eq!(group.next_path(), Some(first));
    }
}
