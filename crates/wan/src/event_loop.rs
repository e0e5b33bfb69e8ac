//! The event loop: takes in what came, sends what is due, and sleeps until the next of either.

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
    emulator::{Emulator, Intake},
    vigil::Vigil,
};

/// Runs until it is told to stop.
pub(crate) fn run(
    mut emulator: Emulator,
    commands: &mpsc::Receiver<Command>,
    waker: &Waker,
) -> io::Result<()> {
    let mut sleeper = Sleeper::new(waker)?;
    for port in emulator.ports() {
        sleeper.alert.add(&port.socket, OTHER, Interest::Read)?;
    }
    let mut vigil = Vigil::new();
    let mut patience = patience(&emulator);
    let mut woke = clock::now();
    loop {
        for command in commands.try_iter() {
            match command {
                Command::Stop => return Ok(()),
                Command::Configure(paths, answer) => {
                    emulator.configure(&paths);
                    patience = self::patience(&emulator);
                    let _ = answer.send(()); // whoever asked may have gone
                }
                Command::Count(answer) => {
                    let _ = answer.send(counters::snapshot(&mut emulator));
                }
            }
        }
        let intake = emulator.receive();
        emulator.release();
        let (due, now) = (emulator.deadline(), clock::now());
        let watch = vigil.keep(now, due.is_some());
        match (intake, patience) {
            (Intake::Part, _) => {}
            // More will come soon, and may wait: one wake-up for many packets.
            (Intake::All, Some(patience)) => {
                let soon = now + patience;
                let rested = (woke + APART).max(now + GATHER);
                sleeper.sleep_through(due.map_or(soon, |due| due.min(soon)).max(rested))?;
            }
            _ => sleeper.sleep(due.into_iter().chain(watch).min())?,
        }
        woke = clock::now();
    }
}

/// While packets come in quick succession the loop sleeps at least so long, so that it handles some
/// at a time.
const GATHER: Duration = Duration::from_micros(20);
/// Its turns then begin at least so far apart: at 27 000 packets a second most of its time went into
/// falling asleep and waking up. Packets that come at less than 10 000 a second notice nothing.
const APART: Duration = Duration::from_micros(100);
/// Longest time that packets wait in the rings: 4096 frames at 8 million a second.
const LONGEST_PATIENCE: Duration = Duration::from_micros(500);
/// For less it is not worth it.
const LEAST_PATIENCE: Duration = Duration::from_micros(50);

/// How long packets may wait in the rings, where they may.
fn patience(emulator: &Emulator) -> Option<Duration> {
    let patience = emulator.patience().min(LONGEST_PATIENCE);
    (patience >= LEAST_PATIENCE).then_some(patience)
}

/// The token of the waker, which must be cleared; every other one says only that there is something.
const WAKER: u64 = 1;
const OTHER: u64 = 0;
/// Longer than any machine runs: the timer ends a wait, not the wait itself.
const UNTIL_READY: Duration = Duration::MAX;

/// Sleeps until a packet, a command or a deadline comes. The timer is absolute, so that what one
/// turn of the loop takes does not push the next deadline back.
struct Sleeper<'waker> {
    /// Timer and commands.
    calm: Poller,
    /// These and the packet sockets.
    alert: Poller,
    timer: OwnedFd,
    waker: &'waker Waker,
    armed: Option<Instant>,
    ready: Vec<Ready>,
}

impl<'waker> Sleeper<'waker> {
    fn new(waker: &'waker Waker) -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let (calm, alert) = (Poller::new()?, Poller::new()?);
        for poller in [&calm, &alert] {
            poller.add(&timer, OTHER, Interest::Read)?;
            poller.add(waker, WAKER, Interest::Read)?;
        }
        Ok(Self { calm, alert, timer, waker, armed: None, ready: Vec::new() })
    }

    /// Sleeps until a packet or a command comes, or the deadline.
    fn sleep(&mut self, deadline: Option<Instant>) -> io::Result<()> {
        if deadline.is_some_and(|deadline| deadline <= clock::now()) {
            return Ok(());
        }
        self.arm(deadline)?;
        self.alert.wait(UNTIL_READY, &mut self.ready)?;
        self.clear();
        Ok(())
    }

    /// Sleeps until the deadline, unless a command comes; packets may wait.
    fn sleep_through(&mut self, deadline: Instant) -> io::Result<()> {
        self.arm(Some(deadline))?;
        self.calm.wait(UNTIL_READY, &mut self.ready)?;
        self.clear();
        Ok(())
    }

    fn clear(&self) {
        if self.ready.iter().any(|ready| ready.token == WAKER) {
            self.waker.clear();
        }
    }

    /// Setting the timer also takes back that it has fired.
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
    let nanos = at.as_nanos().max(1); // zero would disarm the timer
    Timespec {
        tv_sec: i64::try_from(nanos / SECOND).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(nanos % SECOND).unwrap_or_default(),
    }
}
