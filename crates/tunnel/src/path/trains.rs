//! Trains of a path: state of both ends.

use std::time::Instant;

use super::train::{Receiver, Sender};

/// Trains of a path, at most one in each direction.
#[derive(Debug)]
pub(crate) struct Trains {
    pub(super) sender: Option<Sender>,
    /// Bytes of a frame, with its Ethernet header.
    pub(super) size: u16,
    pub(super) receiver: Option<Receiver>,
    /// When the last datagram arrived.
    pub(crate) arrived: Instant,
}

impl Trains {
    pub(super) fn new(now: Instant) -> Self {
        Self { sender: None, size: 0, receiver: None, arrived: now }
    }

    /// Whether a train is being sent.
    pub(crate) fn is_sending(&self) -> bool {
        self.sender.is_some()
    }

    /// Whether frames of a train have arrived lately: then the time of each datagram matters.
    pub(crate) fn is_receiving(&self) -> bool {
        self.receiver.is_some()
    }

    /// When the train that is being sent is to be looked at.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.sender.as_ref().map(Sender::poll_timeout)
    }

    /// Forgets arrivals that nobody has asked for.
    pub(crate) fn expire(&mut self, now: Instant) {
        Receiver::expire(&mut self.receiver, now);
    }
}
