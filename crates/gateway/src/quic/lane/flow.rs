//! One TCP connection that the gateway has terminated.

use std::{io, net::SocketAddr};

use bytes::{Bytes, BytesMut};
use hawser_multipath::{Inbound, Outbound};
use hawser_netdev::transparent::Stream;
use hawser_wire::lane::{Kind, Message, Reason};
use rustix::io::Errno;

use super::{parcels::Parcel, schedule::FULL};

/// Bytes read from a connection before they can be sent, at most, and where memory is short.
const READ_AHEAD: usize = 128 << 10;
const LEAST_AHEAD: usize = 4 << 10;

/// Share of what is left of the memory for that which one connection takes.
const SHARE: u64 = 8;

/// Which connection: of which peer and group, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Name {
    pub(super) peer: u16,
    pub(super) group: u8,
    pub(super) number: u32,
}

/// How far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Accepted here; the other end has not been reached yet.
    Opening,
    /// Asked for by the peer; not connected yet.
    Connecting,
    /// Connected on both sides.
    Open,
}

#[allow(clippy::struct_excessive_bools)] // what a socket and each direction have come to
pub(super) struct Flow {
    pub(super) name: Name,
    pub(super) stage: Stage,
    pub(super) socket: Stream,
    /// To the peer.
    pub(super) outbound: Outbound,
    unsent: BytesMut,
    ended: bool,
    /// From the peer.
    pub(super) inbound: Inbound,
    shut: bool,
    pub(super) readable: bool,
    pub(super) writable: bool,
    /// Why it has failed, if it has.
    pub(super) failed: Option<Reason>,
    /// Whether it is among those that have something to send.
    pub(super) queued: bool,
}

impl Flow {
    /// A connection whose end may send `window` bytes to us at first.
    pub(super) fn new(name: Name, stage: Stage, socket: Stream, window: u32) -> Self {
        Self {
            name,
            stage,
            socket,
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
    pub(super) fn may_send(&self) -> bool {
        let something = self.readable || self.ended || !self.unsent.is_empty();
        self.stage == Stage::Open && something && !self.outbound.ended() && self.failed.is_none()
    }

    pub(super) fn unsent(&self) -> usize {
        self.unsent.len()
    }

    /// Reads from the connection, as far as there is memory; `left` is what all may take still.
    pub(super) fn fill(&mut self, scratch: &mut [u8], left: u64) {
        let share = usize::try_from(left / SHARE).unwrap_or(usize::MAX);
        let most = share.clamp(LEAST_AHEAD, READ_AHEAD);
        while self.readable && self.unsent.len() < most {
            match self.socket.receive(scratch) {
                Ok(0) => (self.ended, self.readable) = (true, false),
                Ok(len) => self.unsent.extend_from_slice(scratch.get(..len).unwrap_or_default()),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.readable = false,
                Err(error) => {
                    self.readable = false;
                    self.failed = Some(reason(&error));
                }
            }
        }
    }

    /// The next message of at most so many bytes; whether it is the last.
    pub(super) fn next(&mut self, most: usize) -> Option<(Parcel, bool)> {
        let piece = self.outbound.next(self.unsent.len(), self.ended, most, FULL)?;
        let payload: Bytes = self.unsent.split_to(piece.len.min(self.unsent.len())).freeze();
        let kind = Kind::Data { offset: piece.offset, end: piece.end };
        Some((Parcel::new(&Message { flow: self.name.number, kind }, payload), piece.end))
    }

    /// Gives the connection what has come for it; how many bytes it took.
    pub(super) fn drain(&mut self) -> Result<u64, Reason> {
        let mut taken = 0;
        if self.stage == Stage::Connecting {
            return Ok(taken);
        }
        while self.writable && self.inbound.ready().is_some() {
            match self.socket.send(self.inbound.all_ready()) {
                Ok(len) => {
                    self.inbound.consume(len);
                    taken += len as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.writable = false,
                Err(error) => return Err(reason(&error)),
            }
        }
        if self.inbound.is_finished() && !self.shut {
            self.shut = true;
            self.socket.shutdown().map_err(|error| reason(&error))?;
        }
        Ok(taken)
    }

    /// Whether both ends have ended, and all has been handed on.
    pub(super) fn is_done(&self) -> bool {
        self.shut && self.outbound.ended()
    }

    /// Tells the peer that the end could not be reached, or is no more.
    pub(super) fn reset(&self, reason: Reason) -> Message {
        Message { flow: self.name.number, kind: Kind::Reset(reason) }
    }

    /// Asks the peer to connect to the other end.
    pub(super) fn ask(&self, (source, destination): (SocketAddr, SocketAddr)) -> Message {
        let kind = Kind::Open { source, destination, window: self.first_window() };
        Message { flow: self.name.number, kind }
    }

    /// Tells the peer that the other end has been reached.
    pub(super) fn confirm(&self) -> Message {
        let kind = Kind::Opened { window: self.first_window() };
        Message { flow: self.name.number, kind }
    }

    fn first_window(&self) -> u32 {
        u32::try_from(self.inbound.limit()).unwrap_or(u32::MAX)
    }
}

/// What an error of a socket says of the end.
pub(super) fn reason(error: &io::Error) -> Reason {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::CONNREFUSED) => Reason::Refused,
        Some(Errno::TIMEDOUT) => Reason::TimedOut,
        Some(Errno::HOSTUNREACH | Errno::NETUNREACH) => Reason::Unreachable,
        _ => Reason::Reset,
    }
}
