//! Trains on a connection: their frames are its datagrams.

use std::{task::Poll, time::Instant};

use hawser_wire::train::Message;

use super::{
    link::{Link, OVERHEAD, Queued},
    train::{Observed, Receiver, Sender, Train},
};

/// Length of an Ethernet header, bytes.
const ETHERNET: u64 = 14;

/// Bytes of reports that may wait for the connection's window.
const REPORT_QUEUE: u64 = 16 << 10;

impl Link {
    /// Begins to send a train.
    pub(crate) fn start_train(&mut self, number: u32, train: Train, now: Instant) {
        let rtt = self.connection.rtt();
        self.trains.sender = Some(Sender::new(number, train, (self.created, rtt), now));
        let overhead = OVERHEAD + ETHERNET;
        let largest = self.connection.datagrams().max_size().unwrap_or(0) as u64 + overhead;
        self.trains.size = train.size().min(u16::try_from(largest).unwrap_or(u16::MAX));
    }

    /// Sends what is due of a train; ready once it is over, with what became of it: None if the peer
    /// did not answer.
    pub(crate) fn run_train(&mut self, now: Instant) -> Poll<Option<Observed>> {
        while let Some(message) = self.trains.sender.as_mut().and_then(|sender| sender.poll(now)) {
            let mut bytes = message.emit();
            if matches!(message, Message::Frame { .. }) {
                let len = u64::from(self.trains.size).saturating_sub(OVERHEAD + ETHERNET);
                bytes.resize(usize::try_from(len).unwrap_or(0).max(bytes.len()), 0);
                self.send_as(bytes.into(), Queued::Probe);
            } else {
                self.send(bytes.into(), None);
            }
        }
        match self.trains.sender.take_if(|sender| sender.is_over(now)) {
            Some(over) => Poll::Ready(over.observed(self.trains.size)),
            None => Poll::Pending,
        }
    }

    /// Takes a message of a train, in the datagram that arrived last.
    pub(crate) fn take_of_train(&mut self, message: Message, now: Instant) {
        match message {
            Message::Frame { train, number } => {
                let times = (self.created, self.trains.arrived);
                Receiver::take(&mut self.trains.receiver, (train, number), times);
            }
            Message::Request { train, first } => {
                for report in Receiver::reports(&mut self.trains.receiver, train, first) {
                    let bytes = report.emit();
                    let size = Self::wire_size(bytes.len() as u64);
                    // One that finds no room is asked for again.
                    if self.view(now, REPORT_QUEUE).available_window >= size {
                        self.send(bytes.into(), None);
                    }
                }
            }
            Message::Report { train, first, total, origin_us, arrivals } => {
                if let Some(sender) = &mut self.trains.sender {
                    sender.take((train, first, total), (origin_us, &arrivals), now);
                }
            }
        }
    }
}
