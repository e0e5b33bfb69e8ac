//! State of introductions: what is to be told, and how often it may be asked for.

use std::{
    collections::{HashMap, VecDeque},
    net::SocketAddr,
    time::Instant,
};

use bytes::Bytes;

use crate::{meeting::INTERVAL, path::PathId};

/// Introductions a second of two gateways on one member path, for all groups together.
const MAX_PER_INTERVAL: u8 = 8;

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

    /// Whether two gateways may be introduced on a member path once more.
    pub(super) fn admits(&mut self, (one, two): (u16, u16), member: u8, now: Instant) -> bool {
        let old = |at: Instant| now.saturating_duration_since(at) >= INTERVAL;
        self.recent.retain(|_, (since, _)| !old(*since));
        let key = (one.min(two), one.max(two), member);
        let (_, count) = self.recent.entry(key).or_insert((now, 0));
        *count = count.saturating_add(1);
        *count <= MAX_PER_INTERVAL
    }
}
