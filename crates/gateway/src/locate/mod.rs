//! Finds the current addresses of member paths: those of interfaces, and those of DNS names
//! (docs/design/addresses.md).

mod choose;
mod names;

use std::{
    collections::HashSet,
    io,
    os::fd::{AsFd, BorrowedFd},
    time::{Duration, Instant},
};

use hawser_netdev::{
    addresses::{Snapshot, Watch},
    poll::Waker,
};
use hawser_tunnel::{
    PathId,
    config::{Path, Peer},
};

use self::{
    choose::{Here, choose},
    names::Names,
};
use crate::config::{Config, ends::Ends};

/// Pause after a change, in which further ones may follow: an address is taken away before the next
/// is added.
const SETTLE: Duration = Duration::from_millis(20);

/// Interval at which paths that wait are looked at without an event.
const TICK: Duration = Duration::from_secs(1);

/// Silence after which the status says that the peer does not answer.
const UNANSWERED: Duration = Duration::from_secs(5);

/// A member path.
struct Place {
    ends: Ends,
    path: Path,
    /// Why it cannot be used at present.
    waits: Option<String>,
    /// Since when nothing has come from its remote address.
    silent_since: Option<Instant>,
}

/// Finds the current addresses of all member paths.
pub(crate) struct Locator {
    watch: Watch,
    names: Names,
    places: Vec<Place>,
    /// When something may have changed.
    due: Option<Instant>,
    next_tick: Instant,
}

impl Locator {
    /// Starts to watch. `waker` wakes the event loop when names were resolved.
    pub(crate) fn new(waker: Waker) -> io::Result<Self> {
        let (watch, names) = (Watch::open()?, Names::new(waker));
        Ok(Self { watch, names, places: Vec::new(), due: None, next_tick: Instant::now() })
    }

    /// Takes over the paths of a configuration, and fills in their addresses.
    pub(crate) fn configure(&mut self, config: &mut Config, now: Instant) {
        let old = std::mem::take(&mut self.places);
        let place = |ends: &Ends| {
            let known = old.iter().find(|place| place.ends == *ends);
            let path = known.map_or_else(|| ends.fixed(), |known| known.path);
            let silent_since = known.and_then(|known| known.silent_since);
            Place { ends: ends.clone(), path, waits: None, silent_since }
        };
        self.places = config.ends.iter().map(place).collect();
        self.names.want(self.places.iter().map(|place| &place.ends.remote), now);
        self.locate(&mut config.peers, now);
    }

    /// Something has changed in the kernel.
    pub(crate) fn handle_event(&mut self, now: Instant) {
        self.watch.clear();
        self.due.get_or_insert(now + SETTLE);
    }

    /// Names may have been resolved.
    pub(crate) fn handle_answers(&mut self, now: Instant) {
        if self.names.take_answers() {
            self.due = Some(now);
        }
    }

    /// When [`Self::handle_timeout`] is due.
    pub(crate) fn poll_timeout(&self) -> Instant {
        self.due.map_or(self.next_tick, |due| due.min(self.next_tick))
    }

    /// Once a second, with the paths on which nothing arrives.
    pub(crate) fn is_tick(&self, now: Instant) -> bool {
        now >= self.next_tick
    }

    /// Takes note of the paths on which nothing arrives: their names are resolved again.
    pub(crate) fn tick(&mut self, silent: &[PathId], now: Instant) {
        self.next_tick = now + TICK;
        let silent: HashSet<_> = silent.iter().collect();
        for place in &mut self.places {
            if silent.contains(&place.ends.path) {
                place.silent_since.get_or_insert(now);
                self.names.ask_again(&place.ends.remote, now);
            } else {
                place.silent_since = None;
            }
        }
        self.names.refresh(now);
        if self.places.iter().any(|place| place.waits.is_some() || place.silent_since.is_some()) {
            self.due = Some(now);
        }
    }

    /// Fills in addresses that have changed; returns whether any has, or whether a path waits for
    /// something that may be there now.
    pub(crate) fn handle_timeout(&mut self, peers: &mut [Peer], now: Instant) -> bool {
        if self.due.is_none_or(|due| due > now) {
            return false;
        }
        self.locate(peers, now)
    }

    fn locate(&mut self, peers: &mut [Peer], now: Instant) -> bool {
        self.due = None;
        let snapshot = match Snapshot::read() {
            Ok(snapshot) => snapshot,
            Err(error) => {
                tracing::warn!(%error, "addresses of this host");
                return false;
            }
        };
        let groups = peers.iter_mut().flat_map(|peer| {
            let branch = &peer.branch;
            peer.groups.iter_mut().map(move |group| (branch, group))
        });
        let paths = groups.flat_map(|(branch, group)| {
            let id = group.id;
            group.paths.iter_mut().map(move |path| (branch, id, path))
        });
        let (mut changed, mut here) = (false, Here::new(snapshot));
        for ((branch, group, path), place) in paths.zip(&mut self.places) {
            let silent = place.silent_since.map(|since| now.saturating_duration_since(since));
            let candidates = self.names.candidates(&place.ends.remote);
            let (found, waits) = choose(&place.ends, place.path, silent, candidates, &mut here);
            let silent = silent.is_some_and(|silent| silent >= UNANSWERED);
            let waits = waits.or_else(|| silent.then(|| unanswered(&place.ends, found)).flatten());
            if place.path.remote != found.remote {
                place.silent_since = place.silent_since.map(|_| now);
            }
            log(branch, group, place, found, waits.as_deref());
            changed |= *path != found;
            (place.path, place.waits, *path) = (found, waits, found);
        }
        changed
    }

    /// Why a path cannot be used at present, if there is one.
    pub(crate) fn first_reason(&self) -> Option<&str> {
        self.places.iter().find_map(|place| place.waits.as_deref())
    }

    /// Paths of a group that cannot be used at present: member, and why.
    pub(crate) fn waiting(&self, peer: u16, group: u8) -> impl Iterator<Item = (u8, &str)> {
        let places = self.places.iter().filter(move |place| {
            let PathId { peer: of, group: number, .. } = place.ends.path;
            (of, number) == (peer, group)
        });
        places.filter_map(|place| Some((place.ends.path.member, place.waits.as_deref()?)))
    }
}

impl AsFd for Locator {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }
}

/// What is known of why nothing arrives.
fn unanswered(ends: &Ends, path: Path) -> Option<String> {
    let remote = path.remote?;
    let strict = ends.interface.as_deref().filter(|name| remote.is_ipv4() && is_strict(name));
    Some(match strict {
        None => format!("no answer from {remote}"),
        Some(name) => {
            format!("no answer from {remote}; net.ipv4.conf.{name}.rp_filter is 1, or all's")
        }
    })
}

/// Whether an interface drops packets that would not leave by it (RFC 3704 section 2.2).
fn is_strict(interface: &str) -> bool {
    let read = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/net/ipv4/conf/{name}/rp_filter"));
        text.ok().and_then(|text| text.trim().parse::<u8>().ok())
    };
    read(interface).max(read("all")) == Some(1)
}

fn log(peer: &str, group: u8, place: &Place, found: Path, waits: Option<&str>) {
    let member = place.ends.path.member;
    match waits {
        Some(reason) if place.waits.as_deref() != waits => {
            tracing::warn!(peer, group, member, reason, "path waits");
        }
        None if place.path != found || place.waits.is_some() => {
            let text = |address: Option<std::net::IpAddr>| {
                address.map_or_else(|| "any".to_owned(), |address| address.to_string())
            };
            let (local, remote) = (text(found.local), text(found.remote));
            tracing::info!(peer, group, member, local, remote, "path addresses");
        }
        _ => {}
    }
}
