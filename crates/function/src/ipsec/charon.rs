//! charon as a child process whose log is read.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use super::{
    document::Ike,
    keys::{Event, Reader},
    selectors::Names,
};

/// Longest line, bytes. A longer one is split.
const LINE_MAX: u64 = 4096;

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

    /// Reads its log until it ends, and calls `handle` with each change of an SA.
    pub(super) fn read(&mut self, handle: impl FnMut(Event) + Send + 'static) -> io::Result<()> {
        let Some(log) = self.0.stderr.take() else { return Ok(()) };
        thread::Builder::new().name("charon".into()).spawn(move || read_lines(log, handle))?;
        Ok(())
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

/// Reads lines. Changes of SAs go to `handle`; lines without keys are copied to our log.
fn read_lines(log: impl Read, mut handle: impl FnMut(Event)) {
    let mut log = BufReader::new(log);
    let mut reader = Reader::new(Names::of_machine());
    let mut line = Vec::new();
    while log.by_ref().take(LINE_MAX).read_until(b'\n', &mut line).is_ok_and(|len| len > 0) {
        let text = String::from_utf8_lossy(&line);
        let said = reader.line(text.trim_end());
        if !said.secret {
            let _ = writeln!(io::stderr(), "{}", text.trim_end()); // standard error may be closed
        }
        said.events.into_iter().for_each(&mut handle);
        line.fill(0);
        line.clear();
    }
}
