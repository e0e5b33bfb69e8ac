//! One direction of one path.

use std::time::Duration;

use crate::delay_line::DelayLine;
use crate::jitter::JitterState;
use crate::loss::LossState;
use crate::profile::Profile;
use crate::queue::Queue;
use crate::random::Stream;
use crate::time::Instant;

/// Longest time that an arriving packet may wait to be taken in on a path with jitter. It bounds the error
/// that batching of arrivals adds to the delay. Equal to the time between two turns of the emulator's event
/// loop; docs/design/wan-emulator.md, "Receiving hosts", has the measurement of both together.
const POLL_INTERVAL_MAX: Duration = Duration::from_micros(100);

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The loss model dropped it.
    Loss,
    /// The bottleneck's queue was full.
    Queue,
}

/// Packets and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Tally {
    /// Counts one packet.
    pub fn add(&mut self, size: u32) {
        self.packets += 1;
        self.bytes += u64::from(size);
    }
}

/// Counters of a channel. `entered + duplicated = departed + lost + queue_full + in flight`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets enqueued.
    pub entered: Tally,
    /// Packets delivered, duplicates included.
    pub departed: Tally,
    /// Packets lost by [`Cause::Loss`].
    pub lost: Tally,
    /// Packets dropped by [`Cause::Queue`].
    pub queue_full: Tally,
    /// Packets that have left the bottleneck, those that are lost behind it included.
    pub served: Tally,
    /// Duplicates created.
    pub duplicated: Tally,
    /// Packets delayed by [`Reordering`], so that later packets overtake them.
    pub reordered: Tally,
    /// Packets delayed to preserve order: their jitter would have let them overtake.
    pub held: Tally,
}

/// A delivered packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure<T> {
    /// The packet's handle, as passed to [`Channel::enqueue`].
    pub packet: T,
    /// When it was due, at or before the `now` of the call.
    pub due: Instant,
    /// Whether a duplicate of the packet follows.
    pub more: bool,
}

/// One direction of one path. `T` is a handle of a packet; the caller holds its bytes.
#[derive(Debug)]
pub struct Channel<T> {
    profile: Profile,
    queue: Option<Queue<Queued<T>>>,
    flight: DelayLine<(T, u32)>,
    random: Random,
    counters: Counters,
}

impl<T: Copy> Channel<T> {
    /// An idle channel. A trace starts now.
    #[must_use]
    pub fn new(now: Instant, profile: Profile, seed: u64) -> Self {
        Self {
            queue: profile.bottleneck.as_ref().map(|bottleneck| Queue::new(now, bottleneck)),
            profile,
            flight: DelayLine::new(),
            random: Random::new(seed),
            counters: Counters::default(),
        }
    }

    /// Enqueues a packet of `size` bytes.
    ///
    /// `now` may be earlier than in previous calls; packets keep the order of the calls.
    ///
    /// # Errors
    /// The packet was dropped, for this cause; the caller may free it.
    pub fn enqueue(&mut self, now: Instant, size: u32, packet: T) -> Result<(), Cause> {
        self.advance(now);
        self.counters.entered.add(size);
        let lost = self.random.loss(&self.profile);
        let queued = Queued { packet: (!lost).then_some(packet), size };
        let Some(queue) = &mut self.queue else {
            return self.pass(now, &queued);
        };
        if queue.push(now, size, queued).is_err() {
            self.counters.queue_full.add(size);
            return Err(Cause::Queue);
        }
        if lost {
            self.counters.lost.add(size);
            return Err(Cause::Loss);
        }
        Ok(())
    }

    /// Latest time for the next call of [`Channel::pop_due`]. `None`: not before the next `enqueue`.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let floor = self.shortest_delay();
        let exit = self.queue.as_ref().and_then(Queue::next_exit).map(|exit| exit + floor);
        match (self.flight.next_due(), exit) {
            (Some(due), Some(exit)) => Some(due.min(exit)),
            (due, exit) => due.or(exit),
        }
    }

    /// The next packet that is due at `now`, earliest first.
    pub fn pop_due(&mut self, now: Instant) -> Option<Departure<T>> {
        self.advance(now);
        let entry = self.flight.pop(now)?;
        let (packet, size) = entry.packet;
        self.counters.departed.add(size);
        Some(Departure { packet, due: entry.due, more: entry.more })
    }

    /// The current profile.
    #[must_use]
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Replaces the profile. Packets in flight keep their due time, and later packets do not overtake them
    /// unless the new profile allows it.
    pub fn set_profile(&mut self, now: Instant, profile: Profile) {
        self.advance(now);
        self.profile = profile;
        match (&mut self.queue, &self.profile.bottleneck) {
            (Some(queue), Some(bottleneck)) => queue.change(now, bottleneck),
            (None, Some(bottleneck)) => self.queue = Some(Queue::new(now, bottleneck)),
            (Some(_), None) => self.empty_queue(now),
            (None, None) => {}
        }
    }

    /// The counters.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Lower bound of the delay behind the bottleneck.
    #[must_use]
    pub fn shortest_delay(&self) -> Duration {
        if self.profile.jitter.is_some() { Duration::ZERO } else { self.profile.delay }
    }

    /// Longest time that an arriving packet may wait before it is enqueued: half of a constant delay, which
    /// leaves departures on time; or, with jitter, a twentieth of its deviation, which is the error that the
    /// wait may add.
    #[must_use]
    pub fn poll_interval_max(&self) -> Duration {
        match &self.profile.jitter {
            None => self.profile.delay / 2,
            Some(jitter) => (jitter.deviation / 20).min(POLL_INTERVAL_MAX),
        }
    }

    /// Bytes that wait before the bottleneck; the packet in transmission is not among them. `None` without one.
    #[must_use]
    pub fn queued_bytes(&self) -> Option<u64> {
        self.queue.as_ref().map(Queue::bytes)
    }

    /// Packets in flight behind the bottleneck, duplicates included.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.flight.len()
    }

    /// Moves packets that have left the queue by `now` to the delay line.
    fn advance(&mut self, now: Instant) {
        while let Some((exit, queued)) = self.queue.as_mut().and_then(|queue| queue.pop(now)) {
            self.counters.served.add(queued.size);
            self.propagate(exit, &queued);
        }
    }

    fn empty_queue(&mut self, now: Instant) {
        for queued in self.queue.take().into_iter().flat_map(Queue::into_items) {
            self.counters.served.add(queued.size);
            self.propagate(now, &queued);
        }
    }

    /// Handles a packet of a channel without bottleneck.
    fn pass(&mut self, now: Instant, queued: &Queued<T>) -> Result<(), Cause> {
        if queued.packet.is_none() {
            self.counters.lost.add(queued.size);
            return Err(Cause::Loss);
        }
        self.propagate(now, queued);
        Ok(())
    }

    /// Puts a packet that left the bottleneck at `now` on the delay line, unless it is lost.
    fn propagate(&mut self, now: Instant, queued: &Queued<T>) {
        let Some(packet) = queued.packet else { return };
        let size = queued.size;
        let duplicate = self.random.duplicate(&self.profile);
        self.delay(now, (packet, size), duplicate);
        if duplicate {
            self.counters.duplicated.add(size);
        }
    }

    fn delay(&mut self, now: Instant, packet: (T, u32), duplicate: bool) {
        let due = now + self.random.delay(&self.profile);
        let extra = self.random.reorder(&self.profile);
        let may_overtake = self.profile.jitter.is_some_and(|jitter| jitter.reorders);
        let due = due + extra.unwrap_or_default();
        for more in [true, false].into_iter().skip(usize::from(!duplicate)) {
            if extra.is_some() || may_overtake {
                self.flight.push_unordered(due, packet, more);
            } else if self.flight.push_in_order(due, packet, more) {
                self.counters.held.add(packet.1);
            }
        }
        if extra.is_some() {
            self.counters.reordered.add(packet.1);
        }
    }
}

/// A packet in the bottleneck's queue.
#[derive(Debug)]
struct Queued<T> {
    /// `None` if the packet is lost; it still occupies the bottleneck.
    packet: Option<T>,
    size: u32,
}

/// State and random stream of each impairment.
#[derive(Debug)]
struct Random {
    loss: (LossState, Stream),
    jitter: (JitterState, Stream),
    duplication: Stream,
    reordering: Stream,
}

impl Random {
    fn new(seed: u64) -> Self {
        let [loss, jitter, duplication, reordering] = Stream::family(seed);
        Self {
            loss: (LossState::default(), loss),
            jitter: (JitterState::default(), jitter),
            duplication,
            reordering,
        }
    }

    fn loss(&mut self, profile: &Profile) -> bool {
        self.loss.0.next(&profile.loss, &mut self.loss.1)
    }

    fn duplicate(&mut self, profile: &Profile) -> bool {
        self.duplication.bernoulli(profile.duplication)
    }

    /// Extra delay of the next packet, if it is to be overtaken.
    fn reorder(&mut self, profile: &Profile) -> Option<Duration> {
        let reordering = profile.reordering?;
        self.reordering.bernoulli(reordering.share).then_some(reordering.by)
    }

    /// Constant delay plus jitter, at least zero.
    fn delay(&mut self, profile: &Profile) -> Duration {
        let Some(jitter) = &profile.jitter else { return profile.delay };
        let deviation = self.jitter.0.next(jitter, &mut self.jitter.1);
        let nanos = profile.delay.as_nanos() as f64 + deviation;
        #[expect(clippy::cast_possible_truncation, reason = "`as` saturates")]
        #[expect(clippy::cast_sign_loss, reason = "max(0) comes first")]
        Duration::from_nanos(nanos.max(0.0) as u64)
    }
}
