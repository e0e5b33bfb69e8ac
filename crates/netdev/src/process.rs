//! Processes of this machine, whosever children they are.
#![allow(unsafe_code)] // a descriptor is given to the reactor

use std::{io, os::fd::OwnedFd};

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::unix::AsyncFd;

/// A process that runs, or did when this was made.
#[derive(Debug)]
pub struct Process {
    pid: Pid,
    handle: AsyncFd<OwnedFd>,
}

impl Process {
    /// A process by its id. Its end is noticed by the running tokio runtime.
    pub fn open(pid: i32) -> io::Result<Self> {
        let pid = Some(pid).filter(|pid| *pid > 0).and_then(Pid::from_raw);
        let pid = pid.ok_or(io::ErrorKind::InvalidInput)?;
        let handle = pidfd_open(pid, PidfdFlags::NONBLOCK)?;
        // SAFETY: the descriptor is owned, and closed only after it was taken out of the reactor.
        let handle = unsafe { AsyncFd::register(handle) }?;
        Ok(Self { pid, handle })
    }

    /// Its id.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Waits until it has ended (`pidfd_open(2)`).
    pub async fn ended(&self) {
        let _ = self.handle.readable().await; // fails only where the runtime ends
    }
}
