//! Waiting for many file descriptors (epoll).

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
    time::Duration,
};

use rustix::{
    event::{
        EventfdFlags, Timespec,
        epoll::{self, CreateFlags, Event, EventData, EventFlags},
        eventfd,
    },
    io::Errno,
};

/// Events per system call.
const BATCH: usize = 64;

/// Events to wait for on a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Readable.
    Read,
    /// Readable or writable.
    ReadWrite,
    /// Readable or writable, edge-triggered (`EPOLLET`).
    Changes,
}

impl Interest {
    fn flags(self) -> EventFlags {
        match self {
            Self::Read => EventFlags::IN | EventFlags::RDHUP,
            Self::ReadWrite => EventFlags::IN | EventFlags::RDHUP | EventFlags::OUT,
            Self::Changes => EventFlags::IN | EventFlags::RDHUP | EventFlags::OUT | EventFlags::ET,
        }
    }
}

/// A ready descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The token with which it was added.
    pub token: u64,
    /// Whether it is readable, closed by the peer, or failed; a read distinguishes these.
    pub readable: bool,
    /// Whether it is writable or failed.
    pub writable: bool,
    /// Whether it failed.
    pub failed: bool,
}

/// A set of descriptors.
pub struct Poller {
    epoll: OwnedFd,
    events: Vec<Event>,
}

impl Poller {
    /// An empty set.
    pub fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(CreateFlags::CLOEXEC)?, events: Vec::with_capacity(BATCH) })
    }

    /// Adds a descriptor. Closing it removes it.
    pub fn add(&self, fd: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, EventData::new_u64(token), interest.flags())?)
    }

    /// Changes token and events of a descriptor.
    pub fn modify(&self, fd: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, fd, EventData::new_u64(token), interest.flags())?)
    }

    /// Waits until a descriptor is ready or the timeout expires, and replaces `ready` by the ready ones.
    pub fn wait(&mut self, timeout: Duration, ready: &mut Vec<Ready>) -> io::Result<()> {
        let timeout = Timespec::try_from(timeout).ok();
        self.events.clear();
        ready.clear();
        let spare = rustix::buffer::spare_capacity(&mut self.events);
        match epoll::wait(&self.epoll, spare, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        ready.extend(self.events.iter().map(Ready::from));
        Ok(())
    }
}

impl From<&Event> for Ready {
    fn from(event: &Event) -> Self {
        let flags = event.flags;
        let failed = flags.intersects(EventFlags::ERR | EventFlags::HUP);
        Self {
            token: event.data.u64(),
            readable: failed || flags.intersects(EventFlags::IN | EventFlags::RDHUP),
            writable: failed || flags.contains(EventFlags::OUT),
            failed: flags.contains(EventFlags::ERR),
        }
    }
}

/// Wakes a [`Poller`] from another thread.
#[derive(Clone, Debug)]
pub struct Waker(Arc<OwnedFd>);

impl Waker {
    /// A waker, to be added to a poller with [`Interest::Read`].
    pub fn new() -> io::Result<Self> {
        Ok(Self(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)))
    }

    /// Makes the waker readable.
    pub fn wake(&self) {
        // Fails only if 2^64 wake-ups are pending.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Resets the waker, so that the poller waits again.
    pub fn clear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(poller: &mut Poller, timeout: Duration) -> Vec<Ready> {
        let mut ready = Vec::new();
        poller.wait(timeout, &mut ready).unwrap();
        ready
    }

    #[test]
    fn a_waker_is_ready_until_it_is_cleared() {
        let mut poller = Poller::new().unwrap();
        let waker = Waker::new().unwrap();
        poller.add(&waker, 7, Interest::Read).unwrap();
        assert_eq!(ready(&mut poller, Duration::ZERO), []);
        waker.wake();
        waker.wake();
        for _ in 0..2 {
            let seen = [Ready { token: 7, readable: true, writable: false, failed: false }];
            assert_eq!(ready(&mut poller, Duration::from_secs(1)), seen);
        }
        waker.clear();
        assert_eq!(ready(&mut poller, Duration::ZERO), []);
    }
}
