//! What the control API asks of the event loop.

use std::sync::mpsc;

use hawser_netdev::poll::Waker;
use hawser_tls::Identity;
use tokio::sync::oneshot;

use super::{
    config::Config,
    status::{Counters, Status},
};

/// One request.
pub(super) enum Command {
    Status(oneshot::Sender<Status>),
    Counters(oneshot::Sender<Counters>),
    /// Take on a configuration whose fixed parts are the present ones.
    Apply(Box<Apply>, oneshot::Sender<Result<(), String>>),
    Stop,
}

/// A configuration and what was read from its files.
pub(super) struct Apply {
    pub(super) config: Config,
    pub(super) identity: Option<Identity>,
}

/// Where requests are put in.
#[derive(Clone)]
pub(super) struct Mailbox {
    sender: mpsc::Sender<Command>,
    waker: Waker,
}

/// Where the event loop takes them out.
pub(super) struct Inbox {
    receiver: mpsc::Receiver<Command>,
    pub(super) waker: Waker,
}

/// Both ends.
pub(super) fn mailbox() -> std::io::Result<(Mailbox, Inbox)> {
    let (sender, receiver) = mpsc::channel();
    let waker = Waker::new()?;
    Ok((Mailbox { sender, waker: waker.clone() }, Inbox { receiver, waker }))
}

impl Mailbox {
    /// Asks for something; whether the event loop is still there.
    pub(super) fn send(&self, command: Command) -> bool {
        let sent = self.sender.send(command).is_ok();
        self.waker.wake();
        sent
    }

    /// Asks, and waits for the answer; None when the event loop has ended.
    pub(super) async fn ask<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Option<T> {
        let (sender, receiver) = oneshot::channel();
        self.send(command(sender));
        receiver.await.ok()
    }
}

impl Inbox {
    /// The next request, if there is one.
    pub(super) fn next(&self) -> Option<Command> {
        self.receiver.try_recv().ok()
    }
}
