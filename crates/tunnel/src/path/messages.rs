//! Messages on one path: each is a unidirectional stream, kept until it has been acknowledged.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use hawser_wire::proxy::{HEADER_MAX_LEN, Message, PAYLOAD_MAX_LEN};
use quinn_proto::{Connection, Dir, ReadError, StreamId, Transmit, VarInt};

use super::sizes::MAX_DATAGRAM;

/// Bytes of partially received messages: more than any path has in flight.
const MAX_PARTIAL: usize = 32 << 20;

/// Bytes of a datagram that are not message: QUIC header and tag, headers of two frames.
const FRAMING: u64 = 48;

/// Error code of abandoned streams.
const GIVEN_UP: VarInt = VarInt::from_u32(0);

/// A message with its encoded header.
#[derive(Clone, Debug)]
pub(crate) struct EncodedMessage {
    head: Bytes,
    payload: Bytes,
}

impl EncodedMessage {
    pub(crate) fn new(message: &Message, payload: Bytes) -> Self {
        Self { head: message.emit().into(), payload }
    }

    pub(crate) fn len(&self) -> usize {
        self.head.len() + self.payload.len()
    }

    pub(crate) fn payload_len(&self) -> usize {
        self.payload.len()
    }
}

/// Messages of one path.
#[derive(Default)]
pub(crate) struct MessageStreams {
    /// Unacknowledged, in the order of sending.
    unacked: BTreeMap<StreamId, EncodedMessage>,
    /// Partially received.
    partial: HashMap<StreamId, Vec<u8>>,
    partial_bytes: usize,
    /// Estimate of bytes given to the connection and not sent.
    waiting: u64,
    lost: u64,
}

impl MessageStreams {
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting
    }

    pub(crate) fn has_unacked(&self) -> bool {
        !self.unacked.is_empty()
    }

    /// Lost bytes have to be sent again.
    pub(crate) fn note_lost_bytes(&mut self, total: u64) {
        if self.has_unacked() {
            self.waiting += total.saturating_sub(self.lost);
        }
        self.lost = total;
    }

    pub(crate) fn note_sent(&mut self, transmit: &Transmit) {
        let size = transmit.size as u64;
        let datagrams = transmit.segment_size.map_or(1, |one| transmit.size.div_ceil(one.max(1)));
        self.waiting = self.waiting.saturating_sub(size.saturating_sub(FRAMING * datagrams as u64));
    }

    pub(crate) fn all_sent(&mut self) {
        self.waiting = 0;
    }

    /// The peer has acknowledged a whole stream.
    pub(crate) fn finished(&mut self, stream: StreamId) {
        self.unacked.remove(&stream);
    }

    /// Drops all messages, in both directions.
    pub(crate) fn forget(&mut self) {
        *self = Self { lost: self.lost, ..Self::default() };
    }

    /// Sends a message on a stream of its own. Returns it if the connection cannot take it now.
    pub(crate) fn send(
        &mut self,
        connection: &mut Connection,
        message: EncodedMessage,
    ) -> Result<(), EncodedMessage> {
        let Some(id) = connection.streams().open(Dir::Uni) else { return Err(message) };
        let mut stream = connection.send_stream(id);
        let mut chunks = [message.head.clone(), message.payload.clone()];
        let used = if message.payload.is_empty() { 1 } else { 2 };
        let written = stream.write_chunks(chunks.get_mut(..used).unwrap_or_default());
        let whole = written.is_ok_and(|written| written.bytes == message.len());
        if !whole || stream.finish().is_err() {
            let _ = stream.reset(GIVEN_UP);
            return Err(message);
        }
        self.waiting += message.len() as u64;
        self.unacked.insert(id, message);
        Ok(())
    }

    /// Takes back unacknowledged messages, to send them on another path.
    pub(crate) fn reclaim(&mut self, connection: &mut Connection) -> Vec<EncodedMessage> {
        self.waiting = 0;
        let messages = std::mem::take(&mut self.unacked);
        for id in messages.keys() {
            // Fails if the connection has ended.
            let _ = connection.send_stream(*id).reset(GIVEN_UP);
        }
        messages.into_values().collect()
    }

    /// Reads messages from streams that the peer has opened.
    pub(crate) fn accept(&mut self, connection: &mut Connection, mut take: impl FnMut(Vec<u8>)) {
        while let Some(id) = connection.streams().accept(Dir::Uni) {
            self.read(connection, id, &mut take);
        }
    }

    /// Continues reading a message; `take` receives it when it is complete.
    pub(crate) fn read(
        &mut self,
        connection: &mut Connection,
        id: StreamId,
        mut take: impl FnMut(Vec<u8>),
    ) {
        let mut message = self.partial.remove(&id).unwrap_or_default();
        self.partial_bytes = self.partial_bytes.saturating_sub(message.len());
        let room = MAX_PARTIAL.saturating_sub(self.partial_bytes);
        let room = room.min(HEADER_MAX_LEN + PAYLOAD_MAX_LEN);
        let mut stream = connection.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { return };
        let goes_on = loop {
            match chunks.next(usize::from(MAX_DATAGRAM)) {
                Ok(Some(chunk)) if message.len() + chunk.bytes.len() <= room => {
                    message.extend_from_slice(&chunk.bytes);
                }
                Ok(None) => {
                    take(std::mem::take(&mut message));
                    break None;
                }
                Err(ReadError::Blocked) => break Some(true),
                Ok(Some(_)) => break Some(false),
                Err(ReadError::Reset(_)) => break None,
            }
        };
        let _ = chunks.finalize();
        match goes_on {
            Some(true) => {
                self.partial_bytes += message.len();
                self.partial.insert(id, message);
            }
            Some(false) => drop(stream.stop(GIVEN_UP)),
            None => {}
        }
    }
}
