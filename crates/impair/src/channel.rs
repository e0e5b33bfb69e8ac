//! One direction of one path.

use std::time::Duration;

use crate::flight::Flight;
use crate::jitter::JitterState;
use crate::loss::LossState;
use crate::profile::Profile;
use crate::queue::Queue;
use crate::random::Stream;
use crate::time::Instant;

/// Where delays vary no packet is noticed later than this.
const LATE_UNDER_JITTER: Duration = Duration::from_micros(100);

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The loss model took it.
    Loss,
    /// The bottleneck's queue was full.
    Queue,
}

/// Packets and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Packets.
    pub packets: u64,
    /// Bytes of these packets.
    pub bytes: u64,
}

impl Tally {
    /// Counts one packet.
    pub fn add(&mut self, size: u32) {
        self.packets += 1;
        self.bytes += u64::from(size);
    }
}

/// What has happened so far. `entered + duplicated = departed + lost + queue_full + under way`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets given to the channel.
    pub entered: Tally,
    /// Packets that came out, copies included.
    pub departed: Tally,
    /// Packets lost by [`Cause::Loss`].
    pub lost: Tally,
    /// Packets dropped by [`Cause::Queue`].
    pub queue_full: Tally,
    /// Copies made.
    pub duplicated: Tally,
    /// Packets held back on purpose, so that others overtake them.
    pub reordered: Tally,
    /// Packets that jitter would have let overtake, and that waited instead.
    pub held: Tally,
}

/// A packet that comes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure<T> {
    /// What was given to [`Channel::enqueue`].
    pub packet: T,
    /// When it was to come out; at or before the `now` it was asked for with.
    pub due: Instant,
    /// Whether the same packet will come once more: a copy.
    pub more: bool,
}

/// One direction of one path. `T` is a handle of a packet whose bytes the caller keeps.
#[derive(Debug)]
pub struct Channel<T> {
    profile: Profile,
    queue: Option<Queue<Fated<T>>>,
    flight: Flight<(T, u32)>,
    chance: Chance,
    counters: Counters,
}

impl<T: Copy> Channel<T> {
    /// A channel that starts now. Traces begin now; chance comes from the seed.
    #[must_use]
    pub fn new(now: Instant, profile: Profile, seed: u64) -> Self {
        Self {
            queue: profile.bottleneck.as_ref().map(|bottleneck| Queue::new(now, bottleneck)),
            profile,
            flight: Flight::new(),
            chance: Chance::new(seed),
            counters: Counters::default(),
        }
    }

    /// Gives a packet of so many bytes to the channel.
    ///
    /// `now` may lie before that of earlier calls by as much as the caller likes; packets keep the
    /// order of the calls.
    ///
    /// # Errors
    /// Why it was dropped: the caller has its packet back.
    pub fn enqueue(&mut self, now: Instant, size: u32, packet: T) -> Result<(), Cause> {
        self.advance(now);
        self.counters.entered.add(size);
        let lost = self.chance.loss(&self.profile);
        let fated = Fated { packet: (!lost).then_some(packet), size };
        let Some(queue) = &mut self.queue else {
            return self.launch(now, &fated);
        };
        if queue.push(now, size, fated).is_err() {
            self.counters.queue_full.add(size);
            return Err(Cause::Queue);
        }
        if lost {
            self.counters.lost.add(size);
            return Err(Cause::Loss);
        }
        Ok(())
    }

    /// When [`Channel::pop_due`] should be called next, at the latest. None: after an `enqueue`.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let floor = self.shortest_delay();
        let exit = self.queue.as_ref().and_then(Queue::next_exit).map(|exit| exit + floor);
        match (self.flight.next_due(), exit) {
            (Some(due), Some(exit)) => Some(due.min(exit)),
            (due, exit) => due.or(exit),
        }
    }

    /// The next packet that is due, in the order in which they are due.
    pub fn pop_due(&mut self, now: Instant) -> Option<Departure<T>> {
        self.advance(now);
        let airborne = self.flight.pop(now)?;
        let (packet, size) = airborne.packet;
        self.counters.departed.add(size);
        Some(Departure { packet, due: airborne.due, more: airborne.more })
    }

    /// The values in force.
    #[must_use]
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// New values for packets from now on. Those under way arrive as they were to; packets behind
    /// them do not overtake them, unless the new values ask for it.
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

    /// What has happened so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// No packet is under way for less.
    #[must_use]
    pub fn shortest_delay(&self) -> Duration {
        if self.profile.jitter.is_some() { Duration::ZERO } else { self.profile.delay }
    }

    /// How much later than it came a packet may be noticed, without anybody seeing that it was: it goes
    /// in time, or, where delays vary, later by a twentieth of their deviation at most.
    #[must_use]
    pub fn patience(&self) -> Duration {
        match &self.profile.jitter {
            None => self.profile.delay / 2,
            Some(jitter) => (jitter.deviation / 20).min(LATE_UNDER_JITTER),
        }
    }

    /// Packets under way behind the bottleneck, copies included.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.flight.len()
    }

    /// Moves what has left the queue by now to the delay line.
    fn advance(&mut self, now: Instant) {
        while let Some((exit, fated)) = self.queue.as_mut().and_then(|queue| queue.pop(now)) {
            self.fly(exit, &fated);
        }
    }

    fn empty_queue(&mut self, now: Instant) {
        for fated in self.queue.take().into_iter().flat_map(Queue::into_items) {
            self.fly(now, &fated);
        }
    }

    fn launch(&mut self, now: Instant, fated: &Fated<T>) -> Result<(), Cause> {
        if fated.packet.is_none() {
            self.counters.lost.add(fated.size);
            return Err(Cause::Loss);
        }
        self.fly(now, fated);
        Ok(())
    }

    /// Puts a packet, unless it is lost, on the delay line.
    fn fly(&mut self, now: Instant, fated: &Fated<T>) {
        let Some(packet) = fated.packet else { return };
        let size = fated.size;
        let copied = self.chance.duplicate(&self.profile);
        self.put(now, (packet, size), copied);
        if copied {
            self.counters.duplicated.add(size);
        }
    }

    fn put(&mut self, now: Instant, packet: (T, u32), copied: bool) {
        let due = now + self.chance.delay(&self.profile);
        let late = self.chance.reorder(&self.profile);
        let free = self.profile.jitter.is_some_and(|jitter| jitter.reorders);
        let due = due + late.unwrap_or_default();
        for more in [true, false].into_iter().skip(usize::from(!copied)) {
            if late.is_some() || free {
                self.flight.push_anywhere(due, packet, more);
            } else if self.flight.push_in_order(due, packet, more) {
                self.counters.held.add(packet.1);
            }
        }
        if late.is_some() {
            self.counters.reordered.add(packet.1);
        }
    }
}

/// A packet in the bottleneck's queue. A lost one takes its share of the rate, without a packet.
#[derive(Debug)]
struct Fated<T> {
    packet: Option<T>,
    size: u32,
}

/// All chance of a channel, a stream for each impairment.
#[derive(Debug)]
struct Chance {
    loss: (LossState, Stream),
    jitter: (JitterState, Stream),
    duplication: Stream,
    reordering: Stream,
}

impl Chance {
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
        self.duplication.happens(profile.duplication)
    }

    /// How much longer the next packet is under way, where it is held back.
    fn reorder(&mut self, profile: &Profile) -> Option<Duration> {
        let reordering = profile.reordering?;
        self.reordering.happens(reordering.share).then_some(reordering.by)
    }

    /// Constant delay and jitter together; never negative.
    fn delay(&mut self, profile: &Profile) -> Duration {
        let Some(jitter) = &profile.jitter else { return profile.delay };
        let deviation = self.jitter.0.next(jitter, &mut self.jitter.1);
        let nanos = profile.delay.as_nanos() as f64 + deviation;
        #[expect(clippy::cast_possible_truncation, reason = "`as` saturates")]
        #[expect(clippy::cast_sign_loss, reason = "max(0) comes first")]
        Duration::from_nanos(nanos.max(0.0) as u64)
    }
}
