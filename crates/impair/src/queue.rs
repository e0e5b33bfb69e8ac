//! A rate behind a byte-limited queue that drops at the tail.

use std::collections::VecDeque;

use crate::profile::{Bottleneck, Service};
use crate::time::Instant;
use crate::trace::Cursor;
use crate::units::Rate;

/// Packets that wait for a bottleneck, and the one in transmission.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    server: Server,
    limit: u64,
    head: Option<(Instant, T)>,
    waiting: VecDeque<(u32, T)>,
    bytes: u64,
}

impl<T> Queue<T> {
    pub(crate) fn new(now: Instant, bottleneck: &Bottleneck) -> Self {
        Self {
            server: Server::new(now, &bottleneck.service),
            limit: bottleneck.queue,
            head: None,
            waiting: VecDeque::new(),
            bytes: 0,
        }
    }

    /// New values for packets from now on; the one in transmission ends as it began.
    pub(crate) fn change(&mut self, now: Instant, bottleneck: &Bottleneck) {
        self.limit = bottleneck.queue;
        self.server.change(now, &bottleneck.service);
    }

    /// Takes a packet in, or gives it back where the queue is full.
    ///
    /// The queue must have been emptied up to `now` with [`Queue::pop`].
    pub(crate) fn push(&mut self, now: Instant, size: u32, item: T) -> Result<(), T> {
        if self.head.is_none() {
            self.head = Some((self.server.serve(now, size), item));
            return Ok(());
        }
        if self.bytes + u64::from(size) > self.limit {
            return Err(item);
        }
        self.bytes += u64::from(size);
        self.waiting.push_back((size, item));
        Ok(())
    }

    /// When the packet in transmission has left.
    pub(crate) fn next_exit(&self) -> Option<Instant> {
        self.head.as_ref().map(|(exit, _)| *exit)
    }

    /// The next packet that has left by `now`, and when.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<(Instant, T)> {
        let (exit, item) = self.head.take_if(|(exit, _)| *exit <= now)?;
        if let Some((size, next)) = self.waiting.pop_front() {
            self.bytes -= u64::from(size);
            self.head = Some((self.server.serve(exit, size), next));
        }
        Some((exit, item))
    }

    /// Everything still inside, in order, without its transmission.
    pub(crate) fn into_items(self) -> impl Iterator<Item = T> {
        let head = self.head.map(|(_, item)| item);
        head.into_iter().chain(self.waiting.into_iter().map(|(_, item)| item))
    }
}

/// When a packet has been transmitted.
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

    /// A trace that stays the same goes on where it was.
    fn change(&mut self, now: Instant, service: &Service) {
        match (&*self, service) {
            (Self::Constant { rate, .. }, Service::Constant(new)) if rate == new => {}
            (Self::Trace { trace, .. }, Service::Trace(new)) if trace == new => {}
            _ => *self = Self::new(now, service),
        }
    }

    fn serve(&mut self, from: Instant, size: u32) -> Instant {
        match self {
            Self::Trace { trace, cursor } => cursor.serve(trace, from, size),
            Self::Constant { rate, carry } => {
                // What is left over of a nanosecond goes to the next packet: 64 bytes at 10 Gbit/s
                // take 51.2 ns, and cutting that off would make the rate 0.4 % too high.
                let work = u64::from(size) * 8 * 1_000_000_000 + *carry;
                *carry = work % rate.divisor();
                Instant::from_nanos(from.as_nanos().saturating_add(work / rate.divisor()))
            }
        }
    }
}
