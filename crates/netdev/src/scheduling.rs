//! How the kernel schedules the calling thread.
#![allow(unsafe_code)]

use std::io;

use rustix::process::{getpriority_process, setpriority_process};

/// Niceness of who moves packets, as Open vSwitch has it for its daemon.
const PREFERRED: i32 = -10;

/// Puts the calling thread before every ordinary one (`SCHED_FIFO`, the lowest real-time priority).
///
/// # Errors
/// The kernel's: `EPERM` without `CAP_SYS_NICE`.
pub fn realtime() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 1 };
    // SAFETY: `parameters` is a valid `sched_param` and outlives the call; 0 is the calling thread.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Puts the calling thread before those of ordinary programs (niceness -10), unless somebody has given it another
/// niceness than they have.
///
/// # Errors
/// The kernel's: `EACCES` without `CAP_SYS_NICE`.
pub fn prefer() -> io::Result<()> {
    // 0 is the calling thread here, not its process (setpriority(2), "C library/kernel differences").
    match getpriority_process(None)? {
        0 => Ok(setpriority_process(None, PREFERRED)?),
        _ => Ok(()),
    }
}
