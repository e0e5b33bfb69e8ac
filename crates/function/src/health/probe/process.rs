//! Checks whether a process on this machine runs.

use std::{fs, future::pending, path::PathBuf};

use hawser_netdev::process::Process;

/// A check of a process. A pidfd reports when it ends.
pub(crate) struct Probe {
    pid_file: PathBuf,
    process: Option<Process>,
}

impl Probe {
    pub(crate) fn new(pid_file: &str) -> Self {
        Self { pid_file: pid_file.into(), process: None }
    }

    pub(crate) fn check(&mut self) -> Result<(), String> {
        let pid = self.pid().inspect_err(|_| self.process = None)?;
        if self.process.as_ref().is_none_or(|known| known.pid() != pid) {
            let process = Process::open(pid).map_err(|error| format!("process {pid}: {error}"))?;
            self.process = Some(process);
        }
        match state(pid) {
            Some('T' | 't') => Err(format!("process {pid} is stopped")),
            Some('Z' | 'X') | None => {
                self.process = None;
                Err(format!("process {pid} has ended"))
            }
            Some(_) => Ok(()),
        }
    }

    fn pid(&self) -> Result<i32, String> {
        let file = self.pid_file.display();
        let text =
            fs::read_to_string(&self.pid_file).map_err(|error| format!("{file}: {error}"))?;
        let pid = text.trim().parse().ok().filter(|pid| *pid > 0);
        pid.ok_or_else(|| format!("{file}: no process id"))
    }

    pub(crate) async fn broken(&mut self) -> String {
        let Some(process) = &self.process else { return pending().await };
        process.ended().await;
        let pid = process.pid();
        self.process = None;
        format!("process {pid} has ended")
    }
}

/// The process's state letter in `/proc/PID/stat`; `None` if there is no such process.
fn state(pid: i32) -> Option<char> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(')')?; // the name before it may contain any character
    rest.trim_start().chars().next()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use rustix::process::{Pid, Signal, kill_process};

    use super::*;

    #[test]
    fn a_process_is_up_until_it_is_stopped_or_ends() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _inside = runtime.enter();
        let file = std::env::temp_dir().join(format!("hawser-pid-{}", std::process::id()));
        let mut probe = Probe::new(file.to_str().unwrap());
        assert!(probe.check().unwrap_err().contains("No such file"));
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
        fs::write(&file, format!("{}\n", child.id())).unwrap();
        assert_eq!(probe.check(), Ok(()));
        let (process, pid) = (Pid::from_child(&child), probe.pid().unwrap());
        kill_process(process, Signal::STOP).unwrap();
        while state(pid) != Some('T') {
            std::thread::yield_now();
        }
        assert_eq!(probe.check(), Err(format!("process {pid} is stopped")));
        kill_process(process, Signal::CONT).unwrap();
        while state(pid) == Some('T') {
            std::thread::yield_now();
        }
        assert_eq!(probe.check(), Ok(()));
        child.kill().unwrap();
        assert_eq!(runtime.block_on(probe.broken()), format!("process {pid} has ended"));
        child.wait().unwrap();
        assert!(probe.check().is_err());
        fs::write(&file, "-1").unwrap();
        assert!(probe.check().unwrap_err().ends_with("no process id"));
        fs::remove_file(&file).unwrap();
    }
}
