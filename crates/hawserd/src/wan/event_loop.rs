//! The event loop: takes in what came, sends what is due, and sleeps until the next of either.

use std::{io, sync::mpsc, time::Duration};

use hawser_impair::Instant;
use rustix::{
    event::epoll::{self, Event, EventData, EventFlags},
    fd::{AsFd, OwnedFd},
    io::{Errno, read},
    time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    },
};

use super::{
    api::Command,
    clock, counters,
    emulator::{Emulator, Intake},
};

/// Runs until it is told to stop.
pub(crate) fn run(
    mut emulator: Emulator,
    commands: &mpsc::Receiver<Command>,
    wake: &OwnedFd,
) -> io::Result<()> {
    let mut sleeper = Sleeper::new(wake)?;
    for port in emulator.ports() {
        sleeper.watch(port.socket.as_fd())?;
    }
    let mut patience = patience(&emulator);
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
        match (intake, patience) {
            (Intake::Part, _) => {}
            // More will come soon, and may wait: one wake-up for many packets.
            (Intake::All, Some(patience)) => {
                let now = clock::now();
                let soon = now + patience;
                let due = emulator.deadline().map_or(soon, |due| due.min(soon));
                sleeper.sleep_through(due.max(now + GATHER))?;
            }
            _ => sleeper.sleep(emulator.deadline())?,
        }
    }
}

/// While packets come in quick succession the loop sleeps at least so long, so that it handles some
/// at a time.
const GATHER: Duration = Duration::from_micros(20);
/// Longest time that packets wait in the rings: 4096 frames at 8 million a second.
const LONGEST_PATIENCE: Duration = Duration::from_micros(500);
/// For less it is not worth it.
const LEAST_PATIENCE: Duration = Duration::from_micros(50);

/// How long packets may wait in the rings, where they may.
fn patience(emulator: &Emulator) -> Option<Duration> {
    let patience = emulator.patience().min(LONGEST_PATIENCE);
    (patience >= LEAST_PATIENCE).then_some(patience)
}

/// The event that says that a command waits; every other one says only that there is something.
const WAKE: u64 = 1;
const OTHER: u64 = 0;

/// Sleeps until a packet, a command or a deadline comes. The timer is absolute, so that what one
/// turn of the loop takes does not push the next deadline back.
struct Sleeper<'wake> {
    /// Timer and commands.
    calm: OwnedFd,
    /// These and the packet sockets.
    alert: OwnedFd,
    timer: OwnedFd,
    wake: &'wake OwnedFd,
    armed: Option<Instant>,
}

impl<'wake> Sleeper<'wake> {
    fn new(wake: &'wake OwnedFd) -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let (calm, alert) = (queue(&timer, wake)?, queue(&timer, wake)?);
        Ok(Self { calm, alert, timer, wake, armed: None })
    }

    /// Lets packets at a socket end a sleep.
    fn watch(&self, socket: impl AsFd) -> io::Result<()> {
        add(&self.alert, socket, OTHER)
    }

    /// Sleeps until a packet or a command comes, or the deadline.
    fn sleep(&mut self, deadline: Option<Instant>) -> io::Result<()> {
        if deadline.is_some_and(|deadline| deadline <= clock::now()) {
            return Ok(());
        }
        self.arm(deadline)?;
        self.wait(&self.alert)
    }

    /// Sleeps until the deadline, unless a command comes; packets may wait.
    fn sleep_through(&mut self, deadline: Instant) -> io::Result<()> {
        self.arm(Some(deadline))?;
        self.wait(&self.calm)
    }

    fn wait(&self, queue: &OwnedFd) -> io::Result<()> {
        let mut events = [Event { flags: EventFlags::empty(), data: EventData::new_u64(OTHER) }; 4];
        let count = match epoll::wait(queue, &mut events[..], None) {
            Err(Errno::INTR) => 0,
            result => result?,
        };
        if events.iter().take(count).any(|event| { event.data }.u64() == WAKE) {
            let _ = read(self.wake, &mut [0; 8]); // the count itself does not matter
        }
        Ok(())
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

/// An event queue of a timer and of commands.
fn queue(timer: &OwnedFd, wake: &OwnedFd) -> io::Result<OwnedFd> {
    let queue = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    add(&queue, timer, OTHER)?;
    add(&queue, wake, WAKE)?;
    Ok(queue)
}

fn add(queue: &OwnedFd, source: impl AsFd, name: u64) -> io::Result<()> {
    Ok(epoll::add(queue, source, EventData::new_u64(name), EventFlags::IN)?)
}

fn timespec(at: Instant) -> Timespec {
    const SECOND: u64 = 1_000_000_000;
    let nanos = at.as_nanos().max(1); // zero would disarm the timer
    Timespec {
        tv_sec: i64::try_from(nanos / SECOND).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(nanos % SECOND).unwrap_or_default(),
    }
}
