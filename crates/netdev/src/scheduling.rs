//! How the kernel schedules the calling thread.
#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io::{self, Write};

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

/// A wish that the machine's processors wake at once: idle ones look for work meanwhile, and need no
/// interrupt (`/dev/cpu_dma_latency` of the kernel's power management quality of service).
///
/// It costs their power, and ends when it is dropped.
#[derive(Debug)]
pub struct Wakefulness(File);

impl Wakefulness {
    /// Opens the device; nothing is wished yet.
    ///
    /// # Errors
    /// The kernel's: `EACCES` for who is not root, `ENOENT` where it has no such device.
    pub fn open() -> io::Result<Self> {
        OpenOptions::new().write(true).open("/dev/cpu_dma_latency").map(Self)
    }

    /// Wishes it, or no longer.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set(&mut self, awake: bool) -> io::Result<()> {
        let microseconds = if awake { 0 } else { ANY_LATENCY };
        self.0.write_all(&microseconds.to_ne_bytes())
    }
}

/// Who wishes nothing: `PM_QOS_CPU_LATENCY_DEFAULT_VALUE`, in microseconds.
const ANY_LATENCY: i32 = 2_000_000_000;

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
