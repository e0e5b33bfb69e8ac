//! The event loop: receives frames, sends those that are due, and sleeps until the next event.

use std::{io, os::fd::OwnedFd, sync::mpsc, time::Duration};

use hawser_impair::Instant;
use hawser_netdev::poll::{Interest, Poller, Ready, Waker};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::{
    api::Command,
    clock, counters,
    cpu_latency::IdleGuard,
    emulator::{Emulator, Intake},
};

/// Runs until [`Command::Stop`].
pub(crate) fn run(
    mut emulator: Emulator,
    commands: &mpsc::Receiver<Command>,
    waker: &Waker,
) -> io::Result<()> {
    let mut sleeper = Sleeper::new(waker)?;
    for port in emulator.ports() {
        sleeper.all.add(&port.socket, OTHER, Interest::Read)?;
    }
    let mut idle_guard = IdleGuard::new();
    let mut poll_interval = poll_interval(&emulator);
    let mut woke = clock::now();
    loop {
        // First, so that what is counted is what is so now.
        let intake = emulator.receive();
        emulator.send_due();
        for command in commands.try_iter() {
            match command {
                Command::Stop => return Ok(()),
                Command::Configure(paths, answer) => {
                    emulator.configure(&paths);
                    poll_interval = self::poll_interval(&emulator);
                    let _ = answer.send(()); // fails if the client has disconnected
                }
                Command::Count(answer) => {
                    let _ = answer.send(counters::snapshot(&mut emulator));
                }
                Command::CountQueues(answer) => {
                    let _ = answer.send(counters::queues(&emulator));
                }
            }
        }
        let (due, now) = (emulator.deadline(), clock::now());
        let idle_check = idle_guard.update(now, due.is_some());
        match (intake, poll_interval) {
            (Intake::Partial, _) => {}
            // More frames will arrive soon, and may wait: one wake-up for many packets.
            (Intake::All, Some(poll_interval)) => {
                let next_poll = now + poll_interval;
                let earliest = (woke + TURN_INTERVAL).max(now + SLEEP_MIN);
                let deadline = due.map_or(next_poll, |due| due.min(next_poll)).max(earliest);
                sleeper.sleep_until(deadline)?;
            }
            _ => sleeper.sleep(due.into_iter().chain(idle_check).min())?,
        }
        woke = clock::now();
    }
}

/// Shortest sleep while frames arrive in quick succession, so that a turn handles several. Batching took the
/// CPU time per packet from 7.6 to 4.9 us at 111 000 packets/s (docs/design/wan-emulator.md).
const SLEEP_MIN: Duration = Duration::from_micros(20);
/// Shortest time from one turn to the next while frames arrive in quick succession: at 27 000 packets/s most
/// CPU time went into falling asleep and waking up. Below 10 000 packets/s it has no effect.
const TURN_INTERVAL: Duration = Duration::from_micros(100);
/// Longest time that frames wait in the rings: a ring of 4096 frames fills in it at 8 million packets/s.
const POLL_INTERVAL_MAX: Duration = Duration::from_micros(500);
/// Shortest poll interval for which the loop batches; below, it wakes for each frame.
const POLL_INTERVAL_MIN: Duration = Duration::from_micros(50);

/// How long frames may wait in the rings; `None` if they must be received at once.
fn poll_interval(emulator: &Emulator) -> Option<Duration> {
    let interval = emulator.poll_interval_max().min(POLL_INTERVAL_MAX);
    (interval >= POLL_INTERVAL_MIN).then_some(interval)
}

/// Token of the waker, which must be cleared. All other descriptors share one token.
const WAKER: u64 = 1;
const OTHER: u64 = 0;
/// No timeout: the timer descriptor ends a wait.
const FOREVER: Duration = Duration::MAX;

/// Waits for frames, commands and deadlines. The timer is absolute, so that the duration of a turn does not
/// delay the next deadline.
struct Sleeper<'waker> {
    /// Timer and waker.
    timer_only: Poller,
    /// Timer, waker and packet sockets.
    all: Poller,
    timer: OwnedFd,
    waker: &'waker Waker,
    armed: Option<Instant>,
    ready: Vec<Ready>,
}

impl<'waker> Sleeper<'waker> {
    fn new(waker: &'waker Waker) -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let (timer_only, all) = (Poller::new()?, Poller::new()?);
        for poller in [&timer_only, &all] {
            poller.add(&timer, OTHER, Interest::Read)?;
            poller.add(waker, WAKER, Interest::Read)?;
        }
        Ok(Self { timer_only, all, timer, waker, armed: None, ready: Vec::new() })
    }

    /// Sleeps until a frame, a command or the deadline.
    fn sleep(&mut self, deadline: Option<Instant>) -> io::Result<()> {
        if deadline.is_some_and(|deadline| deadline <= clock::now()) {
            return Ok(());
        }
        self.arm(deadline)?;
        self.all.wait(FOREVER, &mut self.ready)?;
        self.clear();
        Ok(())
    }

    /// Sleeps until a command or the deadline; frames wait in the rings.
    fn sleep_until(&mut self, deadline: Instant) -> io::Result<()> {
        self.arm(Some(deadline))?;
        self.timer_only.wait(FOREVER, &mut self.ready)?;
        self.clear();
        Ok(())
    }

    fn clear(&self) {
        if self.ready.iter().any(|ready| ready.token == WAKER) {
            self.waker.clear();
        }
    }

    /// Sets the timer, which also resets its readiness.
    fn arm(&mut self, deadline: Option<Instant>) -> io::Result<()> {
        let fired = self.armed.is_some_and(|armed| armed <= clock::now());
        if deadline == self.armed && !fired {
            return Ok(());
        }
        let value = deadline.map_or(Timespec { tv_sec: 0, tv_nsec: 0 }, timespec);
        let setting =
            Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &setting)?;
        self.armed = deadline;
        Ok(())
    }
}

fn timespec(at: Instant) -> Timespec {
    const SECOND: u64 = 1_000_000_000;
    let nanos = at.as_nanos().max(1); // 0 would disarm the timer
    Timespec {
        tv_sec: i64::try_from(nanos / SECOND).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(nanos % SECOND).unwrap_or_default(),
    }
}
