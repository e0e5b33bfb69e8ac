//! Scheduling of the calling thread, and CPU idle states.
#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io::{self, Write};

use rustix::process::{getpriority_process, setpriority_process};

/// Niceness of threads that forward packets: that of Open vSwitch's daemon.
const FORWARDING_NICENESS: i32 = -10;

/// Gives the calling thread the lowest real-time priority (`SCHED_FIFO`), above all ordinary threads.
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

/// A request that CPUs wake up without latency: idle CPUs then poll instead of entering an idle state (Linux
/// `Documentation/power/pm_qos_interface.rst`, `/dev/cpu_dma_latency`).
///
/// It costs power, and ends when it is dropped.
#[derive(Debug)]
pub struct CpuLatencyRequest(File);

impl CpuLatencyRequest {
    /// Opens the device without an active request.
    ///
    /// # Errors
    /// The kernel's: `EACCES` if not root, `ENOENT` if there is no such device.
    pub fn open() -> io::Result<Self> {
        OpenOptions::new().write(true).open("/dev/cpu_dma_latency").map(Self)
    }

    /// Activates or withdraws the request.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set(&mut self, active: bool) -> io::Result<()> {
        let microseconds = if active { 0 } else { ANY_LATENCY };
        self.0.write_all(&microseconds.to_ne_bytes())
    }
}

/// No request: `PM_QOS_CPU_LATENCY_DEFAULT_VALUE` of the kernel, microseconds.
const ANY_LATENCY: i32 = 2_000_000_000;

/// Sets the calling thread's niceness to -10, unless it was already changed from the default.
///
/// # Errors
/// The kernel's: `EACCES` without `CAP_SYS_NICE`.
pub fn prefer() -> io::Result<()> {
    // 0 means the calling thread, not its process (setpriority(2), "C library/kernel differences").
    match getpriority_process(None)? {
        0 => Ok(setpriority_process(None, FORWARDING_NICENESS)?),
        _ => Ok(()),
    }
}
