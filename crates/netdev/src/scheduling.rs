//! How the kernel schedules the calling thread.
#![allow(unsafe_code)]

use std::io;

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
