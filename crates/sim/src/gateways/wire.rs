//! Network between two gateways.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use bytes::BytesMut;
use hawser_impair::{Channel, Instant as At, Probability, Reordering, ValueError};

use crate::{environment::Link, events::nanos};

/// Bytes of the headers of IPv4 and UDP.
const HEADERS: usize = 28;

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;

/// One path, the same in both directions.
#[derive(Clone, Copy, Debug)]
pub struct Wire {
    /// Rate, delay, jitter, loss and queue.
    pub link: Link,
    /// Share of packets that are reordered, per cent, and their extra delay, ms.
    pub late: (f64, f64),
    /// Share of packets that are duplicated, per cent.
    pub duplicate_percent: f64,
    /// MTU, bytes.
    pub mtu: usize,
}

impl Wire {
    /// A path without loss.
    #[must_use]
    pub const fn new(rate_mbps: f64, delay_ms: f64) -> Self {
        let link = Link { rate_mbps, delay_ms, jitter_ms: 0.0, loss_percent: 0.0, queue: 1000 };
        Self { link, late: (0.0, 0.0), duplicate_percent: 0.0, mtu: 1500 }
    }

    /// The same with random loss, per cent.
    #[must_use]
    pub const fn loss(self, loss_percent: f64) -> Self {
        Self { link: Link { loss_percent, ..self.link }, ..self }
    }
}

/// A UDP datagram.
#[derive(Clone)]
pub(super) struct Datagram {
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    pub(super) bytes: BytesMut,
}

/// Datagrams remembered per direction: more than any has in flight.
const REMEMBERED: usize = 8192;

/// One direction. Datagrams in flight are numbered, since one may be delivered twice.
struct Way {
    channel: Channel<u64>,
    datagrams: BTreeMap<u64, Datagram>,
    next: u64,
}

/// State of a path.
pub(super) struct Path {
    /// By destination gateway.
    ways: [Way; 2],
    pub(super) cut: bool,
    pub(super) mtu: usize,
}

impl Path {
    pub(super) fn new(wire: &Wire, seed: u64) -> Result<Self, ValueError> {
        let percent = |share: f64| Probability::new(share / 100.0);
        let (share, by) = wire.late;
        let by = Duration::from_secs_f64(by / 1e3);
        let mut profile = wire.link.profile()?;
        profile.duplication = percent(wire.duplicate_percent)?;
        profile.reordering = (share > 0.0)
            .then(|| Ok::<_, ValueError>(Reordering { share: percent(share)?, by }))
            .transpose()?;
        let way = |seed| {
            let channel = Channel::new(At::from_nanos(0), profile.clone(), seed);
            Way { channel, datagrams: BTreeMap::new(), next: 0 }
        };
        Ok(Self { ways: [way(seed), way(!seed)], cut: false, mtu: wire.mtu })
    }

    pub(super) fn send(
        &mut self,
        now: Duration,
        to: usize,
        (from, destination): (SocketAddr, SocketAddr),
        bytes: &[u8],
    ) {
        if self.cut || bytes.len() + HEADERS > self.mtu {
            return;
        }
        let size = u32::try_from(bytes.len() + HEADERS + ETHERNET).unwrap_or(u32::MAX);
        let Some(way) = self.ways.get_mut(to) else { return };
        way.next += 1;
        // Tail drop: what the queue does not take is lost.
        if way.channel.enqueue(At::from_nanos(nanos(now)), size, way.next).is_ok() {
            way.datagrams.insert(way.next, Datagram { from, to: destination, bytes: bytes.into() });
        }
        if way.datagrams.len() > REMEMBERED {
            way.datagrams.pop_first();
        }
    }

    pub(super) fn receive(&mut self, now: Duration, to: usize) -> Option<Datagram> {
        let way = self.ways.get_mut(to)?;
        loop {
            let departure = way.channel.pop_due(At::from_nanos(nanos(now)))?;
            if let Some(datagram) = way.datagrams.get(&departure.packet) {
                return Some(datagram.clone());
            }
        }
    }

    pub(super) fn next(&self) -> Option<Duration> {
        let due = self.ways.iter().filter_map(|way| way.channel.poll_timeout());
        due.map(|at| Duration::from_nanos(at.as_nanos())).min()
    }
}
