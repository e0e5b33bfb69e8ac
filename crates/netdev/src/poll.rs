//! Waiting for many file descriptors at once (epoll).

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

/// Events taken from the kernel at once.
const BATCH: usize = 64;

/// What to wait for on a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// That it can be read.
    Read,
    /// That it can be read or written.
    ReadWrite,
    /// The same, told once each time that it comes to be so.
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

/// A descriptor that is ready, known by the token it was added with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The token.
    pub token: u64,
    /// It can be read, has ended, or has failed: reading tells.
    pub readable: bool,
    /// It can be written or has failed.
    pub writable: bool,
    /// It has failed.
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

    /// Changes the token of a descriptor, or what is waited for.
    pub fn modify(&self, fd: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, fd, EventData::new_u64(token), interest.flags())?)
    }

    /// Waits until something is ready or the time is over, and puts what is ready into `ready`.
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
    /// A waker, to be added to a poller for reading.
    pub fn new() -> io::Result<Self> {
        Ok(Self(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)))
    }

    /// Makes the poller see its token.
    pub fn wake(&self) {
        // Fails only where 2^64 wake-ups are already waiting.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Takes the wake-ups that have come, so that the poller waits again.
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
    fn a_waker_is_seen_until_it_is_cleared() {
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
