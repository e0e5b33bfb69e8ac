//! Commands from the control API to the event loop.

use std::sync::mpsc;

use hawser_netdev::poll::Waker;
use hawser_tls::Identity;
use hawser_tunnel::Observed;
use tokio::sync::oneshot;

use super::{
    config::Config,
    status::{Counters, Status},
    trains::{Request, TrainRefused},
};

/// One request.
pub(super) enum Command {
    Status(oneshot::Sender<Status>),
    Counters(oneshot::Sender<Counters>),
    /// Apply a configuration that agrees in all fixed fields.
    Apply(Box<Apply>, oneshot::Sender<Result<(), String>>),
    /// Send a train; it is answered when the train has been received.
    Train(Box<Request>, Answer),
    Stop,
}

/// Takes what became of a train.
pub(super) type Answer = oneshot::Sender<Result<Observed, TrainRefused>>;

/// A configuration, and the identity read from its files.
pub(super) struct Apply {
    pub(super) config: Config,
    pub(super) identity: Option<Identity>,
}

/// Sending side.
#[derive(Clone)]
pub(super) struct Mailbox {
    sender: mpsc::Sender<Command>,
    waker: Waker,
}

/// The event loop's side.
pub(super) struct Inbox {
    receiver: mpsc::Receiver<Command>,
    pub(super) waker: Waker,
}

/// A new channel.
pub(super) fn mailbox() -> std::io::Result<(Mailbox, Inbox)> {
    let (sender, receiver) = mpsc::channel();
    let waker = Waker::new()?;
    Ok((Mailbox { sender, waker: waker.clone() }, Inbox { receiver, waker }))
}

impl Mailbox {
    /// Sends a command; returns whether the event loop still runs.
    pub(super) fn send(&self, command: Command) -> bool {
        let sent = self.sender.send(command).is_ok();
        self.waker.wake();
        sent
    }

    /// Sends a command and waits for the reply; None if the event loop has ended.
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
    /// The next command, if there is one.
    pub(super) fn next(&self) -> Option<Command> {
        self.receiver.try_recv().ok()
    }
}
