//! Interrupts a blocking system call of another thread.

#![allow(unsafe_code)] // signal handlers have no safe API

use std::{io, sync::Once};

/// A thread whose system calls can be interrupted.
#[derive(Clone, Copy, Debug)]
pub struct Target(libc::pid_t);

/// The calling thread, prepared to be interrupted: its blocking system call then fails with `EINTR`.
#[must_use]
pub fn current_thread() -> Target {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(install);
    // SAFETY: takes no arguments and cannot fail.
    Target(unsafe { libc::gettid() })
}

extern "C" fn nothing(_: libc::c_int) {}

/// Installs a handler that does nothing, without `SA_RESTART`, so that system calls fail instead of restarting.
fn install() {
    // SAFETY: the structure is plain data for which zero is valid, the handler is
    // async-signal-safe, and the pointers are valid for the call.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
        libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut());
    }
}

impl Target {
    /// Interrupts the thread's current system call. Repeat until it has ended: a call that begins later is not
    /// affected.
    pub fn interrupt(self) -> io::Result<()> {
        // SAFETY: takes integers; for a thread that has ended it returns ESRCH.
        match unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), self.0, libc::SIGUSR1) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread, time::Duration};

    use super::*;

    #[test]
    fn interrupts_a_sleeping_thread() {
        let (send, receive) = mpsc::channel();
        let thread = thread::spawn(move || {
            send.send(current_thread()).expect("the test waits");
            let wait = rustix::thread::Timespec { tv_sec: 20, tv_nsec: 0 };
            rustix::thread::nanosleep(&wait)
        });
        let target = receive.recv().expect("the thread answers");
        while !thread.is_finished() {
            target.interrupt().expect("it is alive");
            thread::sleep(Duration::from_millis(1));
        }
        let result = thread.join().expect("it does not panic");
        assert!(matches!(result, rustix::thread::NanosleepRelativeResult::Interrupted(_)));
    }
}
