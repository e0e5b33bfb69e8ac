//! State of introductions: what is to be told, and how often it may be asked for.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    net::SocketAddr,
    time::{Duration, Instant},
};

use bytes::Bytes;
use hawser_wire::rendezvous::Meeting as Place;

use crate::{meeting::INTERVAL, path::PathId};

/// Introductions a second of two gateways on one member path, for all groups together.
const MAX_PER_INTERVAL: u8 = 8;

/// Time for which a request is kept: an end that has moved may be seen at its new address only later.
const KEPT: Duration = Duration::from_secs(5);

/// Requests that are kept at most, and the interval at which they are looked at: 2 % of a core's time.
const MAX_KEPT: usize = 4096;
const KEPT_INTERVAL: Duration = Duration::from_millis(250);

/// At the rendezvous: a request for an introduction.
struct Request {
    at: Instant,
    /// Addresses of the asker and of the other gateway that were told.
    told: Option<(SocketAddr, SocketAddr)>,
}

/// State of introductions.
#[derive(Default)]
pub(super) struct Rendezvous {
    /// For the host: paths, and where their peers are.
    pub(super) introductions: VecDeque<(PathId, SocketAddr)>,
    /// Messages, and the paths on which they came.
    pub(super) received: Vec<(PathId, Bytes)>,
    /// When a path is to be opened.
    pub(super) next: Option<Instant>,
    /// At the rendezvous: introductions of two gateways on a member path since a moment.
    recent: HashMap<(u16, u16, u8), (Instant, u8)>,
    /// At the rendezvous: requests of late, by the path on which they came and the one that is to be opened; and when
    /// they are looked at next.
    requests: BTreeMap<(PathId, Place), Request>,
    next_look: Option<Instant>,
    /// Number of the last endpoint without a socket.
    pub(super) last_endpoint: usize,
}

impl Rendezvous {
    /// When opening paths is due.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.next
    }

    /// Lets all paths be looked at.
    pub(super) fn wake(&mut self, now: Instant) {
        self.next = Some(now);
    }

    /// Takes a request, and keeps it for a while; returns whether there are not too many.
    pub(super) fn keep(&mut self, from: PathId, place: Place, now: Instant) -> bool {
        let admitted = self.admits((from.peer, place.peer), place.member, now);
        self.requests.remove(&(from, place));
        if admitted && self.requests.len() < MAX_KEPT {
            self.requests.insert((from, place), Request { at: now, told: None });
        }
        admitted
    }

    /// Requests of late, now and again.
    pub(super) fn kept(&mut self, now: Instant) -> Vec<(PathId, Place)> {
        if self.next_look.is_some_and(|at| at > now) {
            return Vec::new();
        }
        self.next_look = Some(now + KEPT_INTERVAL);
        self.requests.retain(|_, kept| now.saturating_duration_since(kept.at) < KEPT);
        self.requests.keys().copied().collect()
    }

    /// Whether these addresses have not been told yet; then they count as told.
    pub(super) fn is_news(
        &mut self,
        paths: (PathId, Place),
        addresses: (SocketAddr, SocketAddr),
    ) -> bool {
        let kept = self.requests.get_mut(&paths);
        kept.is_none_or(|kept| kept.told.replace(addresses) != Some(addresses))
    }

    /// Whether two gateways may be introduced on a member path once more.
    fn admits(&mut self, (one, two): (u16, u16), member: u8, now: Instant) -> bool {
        let old = |at: Instant| now.saturating_duration_since(at) >= INTERVAL;
        self.recent.retain(|_, (since, _)| !old(*since));
        let key = (one.min(two), one.max(two), member);
        let (_, count) = self.recent.entry(key).or_insert((now, 0));
        *count = count.saturating_add(1);
        *count <= MAX_PER_INTERVAL
    }
}
