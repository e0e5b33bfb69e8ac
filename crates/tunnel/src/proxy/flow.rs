//! One TCP connection terminated by the proxy.

use std::net::{IpAddr, SocketAddr};

use bytes::{Bytes, BytesMut};
use hawser_multipath::{RecvStream, SendStream};
use hawser_wire::proxy::{Kind, Message, Reason};

use super::{FULL_PACKET, quotas::Party, stream::Stream};
use crate::{config::Class, path::EncodedMessage};

/// Bytes read from a connection before they can be sent: maximum, and while memory is short.
const MAX_READ_AHEAD: usize = 128 << 10;
const MIN_READ_AHEAD: usize = 4 << 10;

/// One connection may take this fraction (1/n) of the remaining memory.
const MEMORY_SHARE: u64 = 8;

/// Seconds within which a server must have answered, and within which the peer must have said so.
const CONNECT_TIME: u8 = 30;
const OPEN_TIME: u8 = 40;

/// Identifies a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FlowId {
    pub(crate) peer: u16,
    pub(crate) group: u8,
    pub(crate) number: u32,
}

/// Progress of opening a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Accepted here; the peer has not connected to the server yet.
    Opening,
    /// Requested by the peer; not connected yet.
    Connecting,
    /// Connected on both sides.
    Open,
}

#[allow(clippy::struct_excessive_bools)] // what a socket and each direction have come to
pub(crate) struct Flow<S> {
    pub(crate) id: FlowId,
    pub(crate) party: Party,
    /// Class of what this branch sends on it.
    pub(crate) class: Class,
    pub(crate) stage: Stage,
    /// Seconds in a stage before it is open.
    waited: u8,
    pub(crate) stream: S,
    /// To the peer.
    pub(crate) send: SendStream,
    unsent: BytesMut,
    read_eof: bool,
    /// From the peer.
    pub(crate) recv: RecvStream,
    fin_sent: bool,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// Why it has failed.
    pub(crate) failed: Option<Reason>,
    /// Whether it is in the queue of ready connections.
    pub(crate) queued: bool,
}

impl<S: Stream> Flow<S> {
    /// A connection of a client, with a receive window of `window` bytes.
    pub(crate) fn new(
        id: FlowId,
        (client, class): (IpAddr, Class),
        stage: Stage,
        stream: S,
        window: u32,
    ) -> Self {
        let from = (stage == Stage::Connecting).then_some(id.peer);
        Self {
            id,
            party: Party { client, from },
            class,
            stage,
            waited: 0,
            stream,
            send: SendStream::new(0),
            unsent: BytesMut::new(),
            read_eof: false,
            recv: RecvStream::new(window.into()),
            fin_sent: false,
            readable: false,
            writable: false,
            failed: None,
            queued: false,
        }
    }

    /// A second has passed; returns whether it was not opened in time.
    pub(super) fn is_late(&mut self) -> bool {
        let limit = match self.stage {
            Stage::Connecting => CONNECT_TIME,
            Stage::Opening => OPEN_TIME,
            Stage::Open => return false,
        };
        self.waited = self.waited.saturating_add(1);
        self.waited > limit
    }

    /// Whether it may have something to send.
    pub(crate) fn may_send(&self) -> bool {
        let something = self.readable || self.read_eof || !self.unsent.is_empty();
        self.stage == Stage::Open && something && !self.send.is_finished() && self.failed.is_none()
    }

    pub(crate) fn unsent(&self) -> usize {
        self.unsent.len()
    }

    /// Reads from the connection; `left` is the memory that all connections may still take.
    pub(crate) fn fill(&mut self, scratch: &mut [u8], left: u64) {
        let share = usize::try_from(left / MEMORY_SHARE).unwrap_or(usize::MAX);
        let max = share.clamp(MIN_READ_AHEAD, MAX_READ_AHEAD);
        while self.readable && self.unsent.len() < max {
            match self.stream.receive(scratch) {
                Ok(Some(0)) => (self.read_eof, self.readable) = (true, false),
                Ok(Some(len)) => {
                    self.unsent.extend_from_slice(scratch.get(..len).unwrap_or_default());
                }
                Ok(None) => self.readable = false,
                Err(reason) => (self.readable, self.failed) = (false, Some(reason)),
            }
        }
    }

    /// The next message of at most `max` bytes, and whether it is the last.
    pub(crate) fn next(&mut self, max: usize) -> Option<(EncodedMessage, bool)> {
        let piece = self.send.next_chunk(self.unsent.len(), self.read_eof, max, FULL_PACKET)?;
        let payload: Bytes = self.unsent.split_to(piece.len.min(self.unsent.len())).freeze();
        let kind = Kind::Data { offset: piece.offset, end: piece.end };
        Some((EncodedMessage::new(&Message { flow: self.id.number, kind }, payload), piece.end))
    }

    /// Writes received bytes to the connection; returns how many it took.
    pub(crate) fn drain(&mut self) -> Result<u64, Reason> {
        let mut taken = 0;
        if self.stage == Stage::Connecting {
            return Ok(taken);
        }
        while self.writable && self.recv.ready().is_some() {
            match self.stream.send(self.recv.all_ready())? {
                Some(len) => {
                    self.recv.consume(len);
                    taken += len as u64;
                }
                None => self.writable = false,
            }
        }
        if self.recv.is_finished() && !self.fin_sent {
            self.fin_sent = true;
            self.stream.shutdown()?;
        }
        Ok(taken)
    }

    /// Whether both directions have ended and all bytes have been delivered.
    pub(crate) fn is_done(&self) -> bool {
        self.fin_sent && self.send.is_finished()
    }

    /// Tells the peer that the connection could not be made, or was reset.
    pub(crate) fn reset_message(&self, reason: Reason) -> Message {
        Message { flow: self.id.number, kind: Kind::Reset(reason) }
    }

    /// Asks the peer to connect to the server.
    pub(crate) fn open_message(&self, (source, destination): (SocketAddr, SocketAddr)) -> Message {
        let kind = Kind::Open { source, destination, window: self.first_window() };
        Message { flow: self.id.number, kind }
    }

    /// Tells the peer that the connection to the server is established.
    pub(crate) fn opened_message(&self) -> Message {
        let kind = Kind::Opened { window: self.first_window() };
        Message { flow: self.id.number, kind }
    }

    fn first_window(&self) -> u32 {
        u32::try_from(self.recv.max_offset()).unwrap_or(u32::MAX)
    }
}
