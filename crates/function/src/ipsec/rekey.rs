//! New keys before all sequence numbers are used up (RFC 4303 section 3.3.3).

use std::{
    io,
    process::{Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, Sender},
};

/// Packets after which it is asked again where no new keys have come.
const AGAIN: u32 = 1 << 24;

/// Knows when new keys are to be asked for.
pub(super) struct Rekey {
    after: u32,
    /// With what number of packets; none where there are no more after it.
    next: Option<u32>,
    ask: Sender<()>,
}

impl Rekey {
    /// Asks by `ask` when `after` packets have been sealed with one key.
    pub(super) fn new(after: u32, ask: Sender<()>) -> Self {
        Self { after, next: Some(after), ask }
    }

    /// There are new keys.
    pub(super) fn renewed(&mut self) {
        self.next = Some(self.after);
    }

    /// So many packets have been sealed with those that there are.
    pub(super) fn sealed(&mut self, packets: u32) {
        if self.next.is_some_and(|next| packets >= next) {
            self.next = packets.checked_add(AGAIN);
            let _ = self.ask.send(()); // whoever is asked ends with the process alone
        }
    }
}

/// Runs a command whenever it is asked for.
pub(super) fn serve(command: &[String], asked: &Receiver<()>) {
    for () in asked {
        match run(command) {
            Ok(status) if status.success() => {}
            Ok(status) => tracing::error!(?command, %status, "keys were not renewed"),
            Err(error) => tracing::error!(?command, %error, "keys were not renewed"),
        }
    }
}

fn run(command: &[String]) -> io::Result<ExitStatus> {
    let (program, arguments) = command.split_first().ok_or(io::ErrorKind::NotFound)?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).status()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn keys_are_asked_for_once_and_again_if_none_come() {
        let (ask, asked) = mpsc::channel();
        let mut rekey = Rekey::new(1000, ask);
        let mut asks = |packets| {
            rekey.sealed(packets);
            asked.try_iter().count()
        };
        assert_eq!([0, 999, 1003, 1004, 100_000].map(&mut asks), [0, 0, 1, 0, 0]);
        assert_eq!([1002 + AGAIN, 1003 + AGAIN, 1004 + AGAIN].map(&mut asks), [0, 1, 0]);
        assert_eq!([u32::MAX, u32::MAX].map(&mut asks), [1, 0], "there are no numbers after it");
        rekey.renewed();
        rekey.sealed(1000);
        assert_eq!(asked.try_iter().count(), 1);
    }

    #[test]
    fn half_of_all_numbers_are_left_for_it() {
        let text = r#"{"command": ["true"]}"#;
        let rekey: super::super::document::Rekey = serde_json::from_str(text).unwrap();
        assert_eq!(rekey.after, u32::MAX / 2 + 1);
    }

    #[test]
    fn what_cannot_be_run_is_told() {
        assert!(run(&["/nowhere".into()]).is_err());
        assert!(run(&[]).is_err());
        assert!(!run(&["false".into()]).unwrap().success());
    }
}
