//! The bottleneck: a server behind a queue that is limited in bytes and drops at the tail.

use std::collections::VecDeque;

use crate::profile::{Bottleneck, Service};
use crate::time::Instant;
use crate::trace::Cursor;
use crate::units::Rate;

/// A bottleneck's queue, and the packet in transmission.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    server: Server,
    /// Bytes that may wait.
    limit: u64,
    /// The packet in transmission, and when its transmission ends.
    head: Option<(Instant, T)>,
    waiting: VecDeque<(u32, T)>,
    /// Bytes of the waiting packets.
    bytes: u64,
    /// When the last transmission ended: the next begins no earlier.
    free: Instant,
}

impl<T> Queue<T> {
    pub(crate) fn new(now: Instant, bottleneck: &Bottleneck) -> Self {
        Self {
            server: Server::new(now, &bottleneck.service),
            limit: bottleneck.queue,
            head: None,
            waiting: VecDeque::new(),
            bytes: 0,
            free: now,
        }
    }

    /// Bytes that wait; the packet in transmission is not among them.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Replaces limit and server. The packet in transmission ends as it started.
    pub(crate) fn change(&mut self, now: Instant, bottleneck: &Bottleneck) {
        self.limit = bottleneck.queue;
        self.server.change(now, &bottleneck.service);
    }

    /// Enqueues a packet, or returns it if the queue is full.
    ///
    /// The caller must have removed packets up to `now` with [`Queue::pop`]. Where it has removed later ones
    /// (a packet may be taken in some time after it arrived), the bottleneck is still busy until those ended.
    pub(crate) fn push(&mut self, now: Instant, size: u32, item: T) -> Result<(), T> {
        if self.head.is_none() {
            self.head = Some((self.server.serve(now.max(self.free), size), item));
            return Ok(());
        }
        if self.bytes + u64::from(size) > self.limit {
            return Err(item);
        }
        self.bytes += u64::from(size);
        self.waiting.push_back((size, item));
        Ok(())
    }

    /// When the current transmission ends.
    pub(crate) fn next_exit(&self) -> Option<Instant> {
        self.head.as_ref().map(|(exit, _)| *exit)
    }

    /// The next packet whose transmission has ended by `now`, and when it ended.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<(Instant, T)> {
        let (exit, item) = self.head.take_if(|(exit, _)| *exit <= now)?;
        self.free = exit;
        if let Some((size, next)) = self.waiting.pop_front() {
            self.bytes -= u64::from(size);
            self.head = Some((self.server.serve(exit, size), next));
        }
        Some((exit, item))
    }

    /// All packets, in order, at once.
    pub(crate) fn into_items(self) -> impl Iterator<Item = T> {
        let head = self.head.map(|(_, item)| item);
        head.into_iter().chain(self.waiting.into_iter().map(|(_, item)| item))
    }
}

/// Computes when transmissions end. `carry` is the remainder of the last division, bit/s times ns.
#[derive(Debug)]
enum Server {
    Constant { rate: Rate, carry: u64 },
    Trace { trace: std::sync::Arc<crate::trace::Trace>, cursor: Cursor },
}

impl Server {
    fn new(now: Instant, service: &Service) -> Self {
        match service {
            Service::Constant(rate) => Self::Constant { rate: *rate, carry: 0 },
            Service::Trace(trace) => Self::Trace { trace: trace.clone(), cursor: Cursor::new(now) },
        }
    }

    /// Replaces the service. An equal service keeps its position.
    fn change(&mut self, now: Instant, service: &Service) {
        match (&*self, service) {
            (Self::Constant { rate, .. }, Service::Constant(new)) if rate == new => {}
            (Self::Trace { trace, .. }, Service::Trace(new)) if trace == new => {}
            _ => *self = Self::new(now, service),
        }
    }

    /// When the transmission of `size` bytes ends that starts at `from`.
    fn serve(&mut self, from: Instant, size: u32) -> Instant {
        match self {
            Self::Trace { trace, cursor } => cursor.serve(trace, from, size),
            Self::Constant { rate, carry } => {
                // The fraction of a nanosecond is carried over to the next packet: 64 bytes at 10 Gbit/s
                // take 51.2 ns, and truncation would make the rate 0.4 % too high.
                let work = u64::from(size) * 8 * 1_000_000_000 + *carry;
                *carry = work % rate.divisor();
                Instant::from_nanos(from.as_nanos().saturating_add(work / rate.divisor()))
            }
        }
    }
}
