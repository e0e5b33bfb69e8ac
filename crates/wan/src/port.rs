//! One interface: receiving, sending, and its counters.

use std::io;

use hawser_impair::{Instant, Tally};
use hawser_netdev::packet::{BATCH, Socket, VNET_HEADER};
use rustix::io::Errno;

use super::pool::{Pool, Slot};

/// Size of the receive ring, bytes: 4096 frames with an MTU of 1500 bytes, which last for 37 ms at the
/// 111 000 packets/s of docs/design/wan-emulator.md.
const RING_BYTES: usize = 8 << 20;

/// A frame to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing {
    /// Its bytes.
    pub(crate) slot: Slot,
    /// Index of its path.
    pub(crate) path: usize,
    /// When it was due.
    pub(crate) due: Instant,
    /// Whether a duplicate follows, which uses the same slot.
    pub(crate) more: bool,
}

/// Frames and drops of one interface.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    /// Frames received.
    pub(crate) rx: Tally,
    /// Frames sent.
    pub(crate) tx: Tally,
    /// Frames dropped because the receive ring was full.
    pub(crate) ring: u64,
    /// Frames dropped because they exceed the MTU: the sender uses segmentation offload.
    pub(crate) oversize: Tally,
    /// Frames that the kernel refused to send.
    pub(crate) send: Tally,
}

/// One interface.
#[derive(Debug)]
pub(crate) struct Port {
    /// The interface's name.
    pub(crate) name: String,
    /// Its packet socket.
    pub(crate) socket: Socket,
    /// Its counters.
    pub(crate) counters: Counters,
    outgoing: Vec<Outgoing>,
}

impl Port {
    /// Opens an interface of the calling thread's network namespace.
    ///
    /// Without `receives` the socket has no ring: one that is never emptied would always be readable.
    pub(crate) fn open(name: &str, receives: bool) -> io::Result<Self> {
        let socket = Socket::open(name, receives.then_some(RING_BYTES))?;
        let outgoing = Vec::with_capacity(BATCH);
        Ok(Self { name: name.into(), socket, counters: Counters::default(), outgoing })
    }

    /// Adds a frame to the next batch. Returns whether the batch is full.
    pub(crate) fn queue(&mut self, frame: Outgoing) -> bool {
        self.outgoing.push(frame);
        self.outgoing.len().is_multiple_of(BATCH)
    }

    /// Whether frames are queued.
    pub(crate) fn has_queued(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Sends the queued frames, and calls `done` with each one that was sent or refused. If the interface is
    /// full, the rest stays queued for the next call.
    pub(crate) fn flush(&mut self, pool: &mut Pool, mut done: impl FnMut(&Outgoing)) {
        let mut at = 0;
        while let Some(rest) = self.outgoing.get(at..).filter(|rest| !rest.is_empty()) {
            let sent = self.socket.send(rest.iter().map(|frame| pool.read(frame.slot)));
            // An error concerns the first frame alone; the others are tried again.
            let (handled, tally) = match sent {
                Ok(count) if count > 0 => (count, &mut self.counters.tx),
                Err(error) if is_full(&error) => break,
                _ => (1, &mut self.counters.send),
            };
            for frame in rest.iter().take(handled) {
                let length = pool.read(frame.slot).len().saturating_sub(VNET_HEADER);
                tally.add(u32::try_from(length).unwrap_or_default());
                done(frame);
            }
            at += handled;
        }
        let at = at.min(self.outgoing.len());
        for frame in self.outgoing.drain(..at).filter(|frame| !frame.more) {
            pool.free(frame.slot);
        }
    }

    /// The counters, those of the kernel included.
    pub(crate) fn count(&mut self) -> Counters {
        self.counters.ring += self.socket.take_ring_drops().unwrap_or_default();
        self.counters
    }
}

/// Whether the interface is full for now: its ring, or the socket's memory.
fn is_full(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::AGAIN | Errno::NOBUFS))
}
