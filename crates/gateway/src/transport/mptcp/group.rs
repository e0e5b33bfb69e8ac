//! A path group: its connection and queue.

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use hawser_netdev::mptcp::{Local, Probe};
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
    /// Address identifiers of the current connection's local addresses.
    address_ids: Vec<(IpAddr, u8)>,
}

/// Local end and remote address of a path, if its addresses are known.
pub(super) fn ends(path: &config::Path) -> Option<(Local, IpAddr)> {
    let (address, remote) = path.ends()?;
    Some((Local { address, interface: path.interface }, remote))
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
            address_ids: Vec::new(),
        }
    }

    /// Queues records; counts those that do not fit.
    pub(super) fn enqueue(&mut self, records: &[u8], now: Instant) {
        let dropped = self.queue.push(records, now);
        let drops = &mut self.counters.drops;
        *(if self.up { &mut drops.queue_full } else { &mut drops.peer_down }) += dropped;
    }

    /// Local end and remote address for the next attempt: of a different path each time, among
    /// those whose addresses are known.
    pub(super) fn next_path(&self) -> Option<(Local, IpAddr)> {
        let paths: Vec<_> = self.config.paths.iter().filter_map(ends).collect();
        let turn = usize::try_from(self.retry.attempts()).unwrap_or(0);
        paths.get(turn.checked_rem(paths.len())?).copied()
    }

    /// The paths have other addresses now. Without a connection, another attempt is due.
    pub(super) fn paths_moved(&mut self, now: Instant) {
        self.path_manager.set_paths(&self.config.paths, now);
        if self.link.is_none() {
            self.retry = Retry::default();
        }
    }

    /// MPTCP address identifier of a local address, from 1: one that has not stood for another
    /// address in this connection.
    pub(super) fn address_id(&mut self, local: IpAddr) -> u8 {
        if let Some((_, id)) = self.address_ids.iter().find(|(address, _)| *address == local) {
            return *id;
        }
        let last = self.address_ids.last().map_or(0, |(_, id)| *id);
        if last == u8::MAX - 1 {
            self.address_ids.clear();
        }
        let id = if last == u8::MAX - 1 { 1 } else { last + 1 };
        self.address_ids.push((local, id));
        id
    }

    /// The connection is up.
    pub(super) fn set_up(&mut self, now: Instant) {
        self.path_manager = PathManager::new(&self.config.paths, now);
        self.probes.clear();
        self.address_ids.clear();
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

    fn set_config(&mut self, config: &config::Group) {
        self.config = config.clone();
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

    fn sent(&self) -> u64 {
        self.counters.sent.bytes
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
        let first = group.config.paths[0];
        let second = config::Path { local: Some([1, 1, 1, 1].into()), ..first };
        group.config.paths.extend([config::Path { local: None, ..first }, second]);
        assert_eq!(group.next_path(), ends(&first));
        group.retry.failed(Instant::now(), 0);
        assert_eq!(group.next_path(), ends(&second), "not the one without an address");
        group.retry.failed(Instant::now(), 0);
        assert_eq!(group.next_path(), ends(&first));
    }

    #[test]
    fn an_address_identifier_stands_for_one_address() {
        let peer = parse(&sample()).unwrap().peers.remove(0);
        let mut group = Group::new(peer.groups[0].clone(), 1000);
        let address = |n: u8| IpAddr::from([192, 0, 2, n]);
        let mut ids = [1, 2, 1, 3].map(|n| group.address_id(address(n)));
        assert_eq!(ids, [1, 2, 1, 3]);
        ids = [4, 1, 5, 2].map(|n| group.address_id(address(n)));
        assert_eq!(ids, [4, 1, 5, 2]);
        let all: Vec<_> = (0..=255).map(|n| group.address_id([198, 51, 100, n].into())).collect();
        assert!(all.iter().all(|id| (1..=254).contains(id)));
    }
}
