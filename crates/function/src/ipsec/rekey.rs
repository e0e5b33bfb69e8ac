//! Rekeying before the sequence numbers are exhausted (RFC 4303 section 3.3.3).

use std::{
    io,
    process::{Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, Sender},
};

/// Packets after which rekeying is requested again if no new keys have arrived.
const RETRY_AFTER: u32 = 1 << 24;

/// Requests rekeying after a number of packets.
pub(super) struct Rekey {
    after: u32,
    /// Number of packets at the next request; `None` after the last sequence number.
    next: Option<u32>,
    requests: Sender<()>,
}

impl Rekey {
    /// Sends to `requests` when `after` packets have been sent with one key.
    pub(super) fn new(after: u32, requests: Sender<()>) -> Self {
        Self { after, next: Some(after), requests }
    }

    /// Notes that new keys are installed.
    pub(super) fn renewed(&mut self) {
        self.next = Some(self.after);
    }

    /// Notes the number of packets sent with the current keys.
    pub(super) fn sealed(&mut self, packets: u32) {
        if self.next.is_some_and(|next| packets >= next) {
            self.next = packets.checked_add(RETRY_AFTER);
            let _ = self.requests.send(()); // the receiver lives as long as the process
        }
    }
}

/// Runs the command for each request.
pub(super) fn serve(command: &[String], requests: &Receiver<()>) {
    for () in requests {
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
    fn rekeying_is_requested_once_and_again_if_no_keys_come() {
        let (ask, asked) = mpsc::channel();
        let mut rekey = Rekey::new(1000, ask);
        let mut asks = |packets| {
            rekey.sealed(packets);
            asked.try_iter().count()
        };
        assert_eq!([0, 999, 1003, 1004, 100_000].map(&mut asks), [0, 0, 1, 0, 0]);
        assert_eq!(
            [1002 + RETRY_AFTER, 1003 + RETRY_AFTER, 1004 + RETRY_AFTER].map(&mut asks),
            [0, 1, 0]
        );
        assert_eq!([u32::MAX, u32::MAX].map(&mut asks), [1, 0], "there are no numbers left");
        rekey.renewed();
        rekey.sealed(1000);
        assert_eq!(asked.try_iter().count(), 1);
    }

    #[test]
    fn half_of_the_numbers_are_left_for_rekeying() {
        let text = r#"{"command": ["true"]}"#;
        let rekey: super::super::document::Rekey = serde_json::from_str(text).unwrap();
        assert_eq!(rekey.after, u32::MAX / 2 + 1);
    }

    #[test]
    fn a_failing_command_is_an_error() {
        assert!(run(&["/nowhere".into()]).is_err());
        assert!(run(&[]).is_err());
        assert!(!run(&["false".into()]).unwrap().success());
    }
}
