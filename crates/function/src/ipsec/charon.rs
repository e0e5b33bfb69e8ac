//! charon as a child process whose log is read.

use std::{
    io::{self, BufRead, BufReader, ErrorKind, Read, Write},
    os::fd::{AsFd, BorrowedFd},
    process::{Child, ChildStderr, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    io::ioctl_fionbio,
    process::{Pid, Signal, kill_process},
};

use super::{
    document::Ike,
    keys::{Event, Reader},
    selectors::Names,
};

/// Longest line, bytes. A longer one is split.
const LINE_MAX: usize = 4096;

/// Time for deleting SAs at the remote end before charon is killed.
const STOP_TIME: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(10);

/// The running program.
pub(super) struct Charon(Child);

impl Charon {
    /// Starts it. The kernel kills it when the calling thread ends.
    pub(super) fn start(ike: &Ike) -> io::Result<Self> {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).args(&ike.command);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().map(Self)
    }

    /// Takes its log, once.
    pub(super) fn log(&mut self) -> io::Result<Log<ChildStderr>> {
        Log::new(self.0.stderr.take().ok_or(ErrorKind::NotFound)?)
    }

    /// Stops it. It deletes its SAs at the remote end.
    pub(super) fn stop(&mut self) -> io::Result<()> {
        kill_process(Pid::from_child(&self.0), Signal::TERM)?;
        let until = Instant::now() + STOP_TIME;
        while self.0.try_wait()?.is_none() {
            if Instant::now() > until {
                self.0.kill()?;
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// Waits for its end and describes how it ended.
    pub(super) fn wait(&mut self) -> io::Result<String> {
        Ok(self.0.wait()?.to_string())
    }
}

/// The log of charon, read without blocking.
pub(super) struct Log<R: Read> {
    bytes: BufReader<R>,
    reader: Reader,
    /// What has arrived of a line.
    line: Vec<u8>,
}

impl<R: Read + AsFd> Log<R> {
    /// A log that arrives at `from`.
    pub(super) fn new(from: R) -> io::Result<Self> {
        ioctl_fionbio(&from, true)?;
        let reader = Reader::new(Names::of_machine());
        Ok(Self { bytes: BufReader::new(from), reader, line: Vec::new() })
    }

    /// Handles all that has been logged so far; returns whether more may follow. Changes of SAs go to `handle`, and
    /// lines without keys are copied to our log.
    pub(super) fn drain(&mut self, handle: &mut impl FnMut(Event)) -> io::Result<bool> {
        loop {
            let room = LINE_MAX.saturating_sub(self.line.len());
            match self.bytes.by_ref().take(room as u64).read_until(b'\n', &mut self.line) {
                Ok(len) => {
                    if len == 0 || self.line.ends_with(b"\n") || len == room {
                        self.end_line(handle);
                    }
                    if len == 0 {
                        return Ok(false);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(error),
            }
        }
    }

    fn end_line(&mut self, handle: &mut impl FnMut(Event)) {
        let text = String::from_utf8_lossy(&self.line);
        let said = self.reader.line(text.trim_end());
        if !said.secret && !text.is_empty() {
            let _ = writeln!(io::stderr(), "{}", text.trim_end()); // standard error may be closed
        }
        said.events.into_iter().for_each(handle);
        self.line.fill(0);
        self.line.clear();
    }
}

impl<R: Read + AsFd> AsFd for Log<R> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bytes.get_ref().as_fd()
    }
}
