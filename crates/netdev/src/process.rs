//! Processes of this machine, not only children.
#![allow(unsafe_code)] // a descriptor is given to the reactor

use std::{io, os::fd::OwnedFd};

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::unix::AsyncFd;

/// A handle of a process (pidfd).
#[derive(Debug)]
pub struct Process {
    pid: Pid,
    handle: AsyncFd<OwnedFd>,
}

impl Process {
    /// Opens a process by its PID, within a tokio runtime.
    pub fn open(pid: i32) -> io::Result<Self> {
        let pid = Some(pid).filter(|pid| *pid > 0).and_then(Pid::from_raw);
        let pid = pid.ok_or(io::ErrorKind::InvalidInput)?;
        let handle = pidfd_open(pid, PidfdFlags::NONBLOCK)?;
        // SAFETY: the descriptor is owned, and closed only after it was removed from the reactor.
        let handle = unsafe { AsyncFd::register(handle) }?;
        Ok(Self { pid, handle })
    }

    /// Its PID.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Waits until it has exited (`pidfd_open(2)`).
    pub async fn ended(&self) {
        let _ = self.handle.readable().await; // fails only when the runtime shuts down
    }
}
