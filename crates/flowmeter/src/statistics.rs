//! What is kept of a flow's packets: enough for every feature, in constant memory.

use hawser_wire::tcp::flag;

use crate::{
    distribution::Distribution,
    features::{COUNT, Features},
    packet::Packet,
};

/// Packets of one direction.
#[derive(Clone, Copy, Debug, Default)]
struct Direction {
    lengths: Distribution,
    gaps: Distribution,
    last: Option<u64>,
    bytes: u64,
    header_bytes: u64,
    pushes: u64,
    urgents: u64,
}

impl Direction {
    fn add(&mut self, now: u64, packet: &Packet) {
        self.lengths.add(packet.length.into());
        if let Some(last) = self.last.replace(now) {
            self.gaps.add(now.saturating_sub(last));
        }
        self.bytes += u64::from(packet.length);
        self.header_bytes += u64::from(packet.header_length);
        self.pushes += u64::from(packet.flags & flag::PSH != 0);
        self.urgents += u64::from(packet.flags & flag::URG != 0);
    }
}

/// Packets of a flow, or of a window of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Statistics {
    forward: Direction,
    backward: Direction,
    active: Distribution,
    idle: Distribution,
    active_since: u64,
    pub(crate) first: u64,
    pub(crate) last: u64,
    dscp: u8,
}

impl Statistics {
    /// Nothing yet, from time `now` on.
    pub(crate) fn new(now: u64) -> Self {
        Self {
            forward: Direction::default(),
            backward: Direction::default(),
            active: Distribution::default(),
            idle: Distribution::default(),
            active_since: now,
            first: now,
            last: now,
            dscp: 0,
        }
    }

    /// Adds a packet, not older than the one before. A pause longer than `pause` (microseconds) ends an
    /// active time, and no time between packets spans it.
    pub(crate) fn add(&mut self, now: u64, packet: &Packet, is_forward: bool, pause: u64) {
        let gap = now.saturating_sub(self.last);
        if gap > pause {
            self.idle.add(gap);
            self.active.add(self.last.saturating_sub(self.active_since));
            self.active_since = now;
            (self.forward.last, self.backward.last) = (None, None);
        }
        if self.dscp == 0 {
            self.dscp = packet.dscp;
        }
        let direction = if is_forward { &mut self.forward } else { &mut self.backward };
        direction.add(now, packet);
        self.last = now;
    }

    pub(crate) fn packets(&self) -> u64 {
        self.forward.lengths.count() + self.backward.lengths.count()
    }

    pub(crate) fn has_both_directions(&self) -> bool {
        self.forward.lengths.count() > 0 && self.backward.lengths.count() > 0
    }

    pub(crate) fn features(&self) -> Features {
        let Self { forward, backward, idle, .. } = self;
        let mut active = self.active; // with the time that is still active
        active.add(self.last.saturating_sub(self.active_since));
        let totals = [
            forward.lengths.count() as f64,
            forward.bytes as f64,
            backward.lengths.count() as f64,
            backward.bytes as f64,
        ];
        let averages = totals.map(|total| total / active.count() as f64);
        let counts = [
            forward.pushes,
            backward.pushes,
            forward.urgents,
            backward.urgents,
            forward.header_bytes,
            backward.header_bytes,
            u64::from(self.dscp),
        ];
        let mut values = totals
            .into_iter()
            .chain(forward.lengths.summary())
            .chain(backward.lengths.summary())
            .chain(forward.gaps.summary())
            .chain(backward.gaps.summary())
            .chain([self.last.saturating_sub(self.first) as f64])
            .chain(active.summary())
            .chain(idle.summary())
            .chain(averages)
            .chain(counts.map(|count| count as f64));
        let mut features = [0.0; COUNT];
        features.fill_with(|| values.next().unwrap_or_default());
        features
    }
}
