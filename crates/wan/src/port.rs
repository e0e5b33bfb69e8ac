//! One interface: frames in, frames out, and what became of those that were not.

use std::io;

use hawser_impair::{Instant, Tally};
use hawser_netdev::packet::{BATCH, Socket, VNET_HEADER};
use rustix::io::Errno;

use super::pool::{Pool, Slot};

/// Bytes of an interface's receive ring: 4096 frames of a 1500-byte MTU, 37 ms at 111 000 a second.
const RING_BYTES: usize = 8 << 20;

/// A frame on its way out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing {
    /// Its bytes.
    pub(crate) slot: Slot,
    /// Number of the path it took.
    pub(crate) path: usize,
    /// When it was to go.
    pub(crate) due: Instant,
    /// Whether a copy follows, which needs the slot too.
    pub(crate) more: bool,
}

/// Frames and drops of one interface.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    /// Frames received.
    pub(crate) rx: Tally,
    /// Frames sent.
    pub(crate) tx: Tally,
    /// Frames that found the receive ring full.
    pub(crate) ring: u64,
    /// Frames larger than the MTU allows: segmentation offload is on where it must not be.
    pub(crate) oversize: Tally,
    /// Frames that the kernel refused to send.
    pub(crate) send: Tally,
}

/// One interface.
#[derive(Debug)]
pub(crate) struct Port {
    /// The interface's name.
    pub(crate) name: String,
    /// The socket.
    pub(crate) socket: Socket,
    /// What happened here.
    pub(crate) counters: Counters,
    outgoing: Vec<Outgoing>,
}

impl Port {
    /// Opens an interface of the calling thread's network namespace.
    ///
    /// Where it receives nothing, what comes is another's: a ring that nobody empties would only
    /// say for ever that something is there.
    pub(crate) fn open(name: &str, receives: bool) -> io::Result<Self> {
        let socket = Socket::open(name, receives.then_some(RING_BYTES))?;
        let outgoing = Vec::with_capacity(BATCH);
        Ok(Self { name: name.into(), socket, counters: Counters::default(), outgoing })
    }

    /// Adds a frame to the next batch. Tells whether a batch is full.
    pub(crate) fn queue(&mut self, frame: Outgoing) -> bool {
        self.outgoing.push(frame);
        self.outgoing.len().is_multiple_of(BATCH)
    }

    /// Whether frames are gathered here.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Sends what was gathered, and gives each frame that went or was refused to `done`. Where the
    /// interface takes no more for now, the rest waits for the next call.
    pub(crate) fn flush(&mut self, pool: &mut Pool, mut done: impl FnMut(&Outgoing)) {
        let mut at = 0;
        while let Some(rest) = self.outgoing.get(at..).filter(|rest| !rest.is_empty()) {
            let sent = self.socket.send(rest.iter().map(|frame| pool.read(frame.slot)));
            // An error is the first frame's: the others have their chance yet.
            let (gone, tally) = match sent {
                Ok(count) if count > 0 => (count, &mut self.counters.tx),
                Err(error) if is_full(&error) => break,
                _ => (1, &mut self.counters.send),
            };
            for frame in rest.iter().take(gone) {
                let length = pool.read(frame.slot).len().saturating_sub(VNET_HEADER);
                tally.add(u32::try_from(length).unwrap_or_default());
                done(frame);
            }
            at += gone;
        }
        let at = at.min(self.outgoing.len());
        for frame in self.outgoing.drain(..at).filter(|frame| !frame.more) {
            pool.free(frame.slot);
        }
    }

    /// Frames and drops so far, those that the kernel counts included.
    pub(crate) fn count(&mut self) -> Counters {
        self.counters.ring += self.socket.take_ring_drops().unwrap_or_default();
        self.counters
    }
}

/// Whether the interface would take the frame later: its ring or the socket's memory is full.
fn is_full(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::AGAIN | Errno::NOBUFS))
}
