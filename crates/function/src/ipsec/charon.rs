//! The program that negotiates keys, as a child process whose log is read.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use super::{
    document::Ike,
    keys::{Event, Line, Reader},
};

/// Bytes of a line, at most; what is longer is taken for several.
const LINE_MAX: u64 = 4096;

/// How long it may take to say farewell to the other end.
const PATIENCE: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(10);

/// The running program.
pub(super) struct Charon(Child);

impl Charon {
    /// Starts it. The kernel ends it with the calling thread, whatever becomes of that.
    pub(super) fn start(ike: &Ike) -> io::Result<Self> {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).args(&ike.command);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().map(Self)
    }

    /// Reads its log until it ends. `tell` is given what happens to associations.
    pub(super) fn read(&mut self, tell: impl FnMut(Event) + Send + 'static) -> io::Result<()> {
        let Some(log) = self.0.stderr.take() else { return Ok(()) };
        thread::Builder::new().name("charon".into()).spawn(move || follow(log, tell))?;
        Ok(())
    }

    /// Ends it: it deletes its associations at the other end.
    pub(super) fn stop(&mut self) -> io::Result<()> {
        kill_process(Pid::from_child(&self.0), Signal::TERM)?;
        let until = Instant::now() + PATIENCE;
        while self.0.try_wait()?.is_none() {
            if Instant::now() > until {
                self.0.kill()?;
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// How it has ended.
    pub(super) fn wait(&mut self) -> io::Result<String> {
        Ok(self.0.wait()?.to_string())
    }
}

/// Reads lines: what is about keys goes to `tell`, everything else to our own log.
fn follow(log: impl Read, mut tell: impl FnMut(Event)) {
    let mut log = BufReader::new(log);
    let mut reader = Reader::default();
    let mut line = Vec::new();
    while log.by_ref().take(LINE_MAX).read_until(b'\n', &mut line).is_ok_and(|len| len > 0) {
        let text = String::from_utf8_lossy(&line);
        match reader.line(text.trim_end()) {
            Line::Kept(event) => event.into_iter().for_each(&mut tell),
            Line::Told => {
                let _ = writeln!(io::stderr(), "{}", text.trim_end()); // nobody may be there to read it
            }
        }
        line.fill(0);
        line.clear();
    }
}
