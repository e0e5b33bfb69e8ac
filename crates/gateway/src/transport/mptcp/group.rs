//! A path group: its connection and queue.

use std::time::{Duration, Instant};

use hawser_netdev::mptcp::Probe;
use hawser_tunnel::{PathGroup, Retry, config, counters::GroupCounters};

use super::{link::Link, path_manager::PathManager, queue::Queue};

/// A connection on which nothing is received for this long is avoided; keepalives arrive every
/// second.
const SUSPECT_AFTER: Duration = Duration::from_secs(3);

/// A path group: at most one connection, and a queue.
pub(super) struct Group {
    pub(super) config: config::Group,
    pub(super) link: Option<Link>,
    /// Whether the hellos were exchanged.
    pub(super) up: bool,
    pub(super) queue: Queue,
    pub(super) counters: GroupCounters,
    pub(super) retry: Retry,
    /// Connections that were up before the current one.
    pub(super) reconnects: u64,
    pub(super) was_up: bool,
    /// Subflows of the current connection.
    pub(super) path_manager: PathManager,
    /// Probes in flight, by member path.
    pub(super) probes: Vec<(usize, Probe)>,
}

impl Group {
    pub(super) fn new(config: config::Group, queue_bytes: usize) -> Self {
        let path_manager = PathManager::new(&config.paths, Instant::now());
        Self {
            config,
            link: None,
            up: false,
            queue: Queue::new(queue_bytes),
            counters: GroupCounters::default(),
            retry: Retry::default(),
            reconnects: 0,
            was_up: false,
            path_manager,
            probes: Vec::new(),
        }
    }

    /// Queues records; counts those that do not fit.
    pub(super) fn enqueue(&mut self, records: &[u8], now: Instant) {
        let dropped = self.queue.push(records, now);
        let drops = &mut self.counters.drops;
        *(if self.up { &mut drops.queue_full } else { &mut drops.peer_down }) += dropped;
    }

    /// Path for the next attempt: a different one each time.
    pub(super) fn next_path(&self) -> Option<config::Path> {
        let paths = &self.config.paths;
        let turn = usize::try_from(self.retry.attempts()).unwrap_or(0);
        paths.get(turn.checked_rem(paths.len())?).copied()
    }

    /// The connection is up.
    pub(super) fn set_up(&mut self, now: Instant) {
        self.path_manager = PathManager::new(&self.config.paths, now);
        self.probes.clear();
        self.reconnects += u64::from(self.was_up);
        self.was_up = true;
        self.up = true;
        self.retry = Retry::default();
    }
}

impl PathGroup for Group {
    fn config(&self) -> &config::Group {
        &self.config
    }

    /// It is up, data gets through, and something was received recently.
    fn is_usable(&self, now: Instant) -> bool {
        let heard = self.link.as_ref().map(|link| link.last_received);
        self.up
            && !self.path_manager.stalled()
            && heard.is_none_or(|heard| now.saturating_duration_since(heard) < SUSPECT_AFTER)
    }

    fn queued(&self) -> u64 {
        self.queue.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{parse, tests::sample};

    #[test]
    fn attempts_alternate_between_paths() {
        let peer = parse(&sample()).unwrap().peers.remove(0);
        let mut group = Group::new(peer.groups[0].clone(), 1000);
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
