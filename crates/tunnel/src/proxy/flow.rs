//! One TCP connection that the gateway has terminated.

use std::net::SocketAddr;

use bytes::{Bytes, BytesMut};
use hawser_multipath::{Inbound, Outbound};
use hawser_wire::proxy::{Kind, Message, Reason};

use super::{FULL, stream::Stream};
use crate::path::EncodedMessage;

/// Bytes read from a connection before they can be sent, at most, and where memory is short.
const READ_AHEAD: usize = 128 << 10;
const LEAST_AHEAD: usize = 4 << 10;

/// Share of what is left of the memory for that which one connection takes.
const SHARE: u64 = 8;

/// Which connection: of which peer and group, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FlowId {
    pub(crate) peer: u16,
    pub(crate) group: u8,
    pub(crate) number: u32,
}

/// How far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Accepted here; the other end has not been reached yet.
    Opening,
    /// Asked for by the peer; not connected yet.
    Connecting,
    /// Connected on both sides.
    Open,
}

#[allow(clippy::struct_excessive_bools)] // what a socket and each direction have come to
pub(crate) struct Flow<S> {
    pub(crate) id: FlowId,
    pub(crate) stage: Stage,
    pub(crate) stream: S,
    /// To the peer.
    pub(crate) outbound: Outbound,
    unsent: BytesMut,
    ended: bool,
    /// From the peer.
    pub(crate) inbound: Inbound,
    shut: bool,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// Why it has failed, if it has.
    pub(crate) failed: Option<Reason>,
    /// Whether it is among those that have something to send.
    pub(crate) queued: bool,
}

impl<S: Stream> Flow<S> {
    /// A connection whose end may send `window` bytes to us at first.
    pub(crate) fn new(id: FlowId, stage: Stage, stream: S, window: u32) -> Self {
        Self {
            id,
            stage,
            stream,
            outbound: Outbound::new(0),
            unsent: BytesMut::new(),
            ended: false,
            inbound: Inbound::new(window.into()),
            shut: false,
            readable: false,
            writable: false,
            failed: None,
            queued: false,
        }
    }

    /// Whether it may have something to send.
    pub(crate) fn may_send(&self) -> bool {
        let something = self.readable || self.ended || !self.unsent.is_empty();
        self.stage == Stage::Open && something && !self.outbound.ended() && self.failed.is_none()
    }

    pub(crate) fn unsent(&self) -> usize {
        self.unsent.len()
    }

    /// Reads from the connection, as far as there is memory; `left` is what all may take still.
    pub(crate) fn fill(&mut self, scratch: &mut [u8], left: u64) {
        let share = usize::try_from(left / SHARE).unwrap_or(usize::MAX);
        let most = share.clamp(LEAST_AHEAD, READ_AHEAD);
        while self.readable && self.unsent.len() < most {
            match self.stream.receive(scratch) {
                Ok(Some(0)) => (self.ended, self.readable) = (true, false),
                Ok(Some(len)) => {
                    self.unsent.extend_from_slice(scratch.get(..len).unwrap_or_default());
                }
                Ok(None) => self.readable = false,
                Err(reason) => (self.readable, self.failed) = (false, Some(reason)),
            }
        }
    }

    /// The next message of at most so many bytes; whether it is the last.
    pub(crate) fn next(&mut self, most: usize) -> Option<(EncodedMessage, bool)> {
        let piece = self.outbound.next(self.unsent.len(), self.ended, most, FULL)?;
        let payload: Bytes = self.unsent.split_to(piece.len.min(self.unsent.len())).freeze();
        let kind = Kind::Data { offset: piece.offset, end: piece.end };
        Some((EncodedMessage::new(&Message { flow: self.id.number, kind }, payload), piece.end))
    }

    /// Gives the connection what has come for it; how many bytes it took.
    pub(crate) fn drain(&mut self) -> Result<u64, Reason> {
        let mut taken = 0;
        if self.stage == Stage::Connecting {
            return Ok(taken);
        }
        while self.writable && self.inbound.ready().is_some() {
            match self.stream.send(self.inbound.all_ready())? {
                Some(len) => {
                    self.inbound.consume(len);
                    taken += len as u64;
                }
                None => self.writable = false,
            }
        }
        if self.inbound.is_finished() && !self.shut {
            self.shut = true;
            self.stream.shutdown()?;
        }
        Ok(taken)
    }

    /// Whether both ends have ended, and all has been handed on.
    pub(crate) fn is_done(&self) -> bool {
        self.shut && self.outbound.ended()
    }

    /// Tells the peer that the end could not be reached, or is no more.
    pub(crate) fn reset(&self, reason: Reason) -> Message {
        Message { flow: self.id.number, kind: Kind::Reset(reason) }
    }

    /// Asks the peer to connect to the other end.
    pub(crate) fn ask(&self, (source, destination): (SocketAddr, SocketAddr)) -> Message {
        let kind = Kind::Open { source, destination, window: self.first_window() };
        Message { flow: self.id.number, kind }
    }

    /// Tells the peer that the other end has been reached.
    pub(crate) fn confirm(&self) -> Message {
        let kind = Kind::Opened { window: self.first_window() };
        Message { flow: self.id.number, kind }
    }

    fn first_window(&self) -> u32 {
        u32::try_from(self.inbound.limit()).unwrap_or(u32::MAX)
    }
}
