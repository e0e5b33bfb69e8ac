//! Messages on one path: each is a unidirectional stream of its connection, kept until it has arrived.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use hawser_wire::lane::{HEADER_MAX_LEN, Message, PAYLOAD_MAX_LEN};
use quinn_proto::{Dir, ReadError, StreamId, Transmit, VarInt};

use crate::quic::{link::Link, settings::LARGEST};

/// Bytes of messages that have come in part, at most: more than any path has under way.
const MAX_COMING: usize = 32 << 20;

/// Bytes of a datagram that are no message: QUIC's header and tag, headers of two frames.
const FRAMING: u64 = 48;

/// A stream that is given up.
const GIVEN_UP: VarInt = VarInt::from_u32(0);

/// A message.
#[derive(Clone, Debug)]
pub(in crate::quic) struct Parcel {
    head: Bytes,
    payload: Bytes,
}

impl Parcel {
    pub(super) fn new(message: &Message, payload: Bytes) -> Self {
        Self { head: message.emit().into(), payload }
    }

    pub(super) fn len(&self) -> usize {
        self.head.len() + self.payload.len()
    }

    pub(super) fn payload_len(&self) -> usize {
        self.payload.len()
    }
}

/// The messages of a path.
#[derive(Default)]
pub(in crate::quic) struct Parcels {
    /// Not known to have arrived, in the order in which they were given.
    under_way: BTreeMap<StreamId, Parcel>,
    /// Come in part.
    coming: HashMap<StreamId, Vec<u8>>,
    coming_bytes: usize,
    /// Bytes given to the connection that it has not sent, about.
    waiting: u64,
    lost: u64,
}

impl Parcels {
    pub(in crate::quic) fn waiting(&self) -> u64 {
        self.waiting
    }

    pub(in crate::quic) fn are_under_way(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// What was lost has to be sent again.
    pub(in crate::quic) fn note_lost(&mut self, total: u64) {
        if self.are_under_way() {
            self.waiting += total.saturating_sub(self.lost);
        }
        self.lost = total;
    }

    pub(in crate::quic) fn note_sent(&mut self, transmit: &Transmit) {
        let size = transmit.size as u64;
        let datagrams = transmit.segment_size.map_or(1, |one| transmit.size.div_ceil(one.max(1)));
        self.waiting = self.waiting.saturating_sub(size.saturating_sub(FRAMING * datagrams as u64));
    }

    pub(in crate::quic) fn all_sent(&mut self) {
        self.waiting = 0;
    }

    /// It has arrived.
    pub(in crate::quic) fn arrived(&mut self, stream: StreamId) {
        self.under_way.remove(&stream);
    }

    /// Nothing of it matters any more.
    pub(in crate::quic) fn forget(&mut self) {
        *self = Self { lost: self.lost, ..Self::default() };
    }
}

impl Link {
    /// Gives it a message; back comes what it cannot take now.
    pub(super) fn give_parcel(&mut self, parcel: Parcel) -> Result<(), Parcel> {
        let Some(id) = self.connection.streams().open(Dir::Uni) else { return Err(parcel) };
        let mut stream = self.connection.send_stream(id);
        let mut chunks = [parcel.head.clone(), parcel.payload.clone()];
        let used = if parcel.payload.is_empty() { 1 } else { 2 };
        let written = stream.write_chunks(chunks.get_mut(..used).unwrap_or_default());
        let whole = written.is_ok_and(|written| written.bytes == parcel.len());
        self.active = true;
        if !whole || stream.finish().is_err() {
            let _ = stream.reset(GIVEN_UP);
            return Err(parcel);
        }
        self.parcels.waiting += parcel.len() as u64;
        self.parcels.under_way.insert(id, parcel);
        Ok(())
    }

    /// Takes back what is not known to have arrived, to be sent on another path.
    pub(in crate::quic) fn take_back(&mut self) -> Vec<Parcel> {
        self.parcels.waiting = 0;
        let parcels = std::mem::take(&mut self.parcels.under_way);
        for id in parcels.keys() {
            // Fails where the connection has ended.
            let _ = self.connection.send_stream(*id).reset(GIVEN_UP);
        }
        self.active = true;
        parcels.into_values().collect()
    }

    /// Reads the messages that have begun to come since.
    pub(in crate::quic) fn accept_parcels(&mut self, mut take: impl FnMut(Vec<u8>)) {
        while let Some(id) = self.connection.streams().accept(Dir::Uni) {
            self.read_parcel(id, &mut take);
        }
    }

    /// Reads on in a message; `take` gets it when it is whole.
    pub(in crate::quic) fn read_parcel(&mut self, id: StreamId, mut take: impl FnMut(Vec<u8>)) {
        let mut message = self.parcels.coming.remove(&id).unwrap_or_default();
        self.parcels.coming_bytes = self.parcels.coming_bytes.saturating_sub(message.len());
        let room = MAX_COMING.saturating_sub(self.parcels.coming_bytes);
        let room = room.min(HEADER_MAX_LEN + PAYLOAD_MAX_LEN);
        let mut stream = self.connection.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { return };
        let goes_on = loop {
            match chunks.next(usize::from(LARGEST)) {
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
                self.parcels.coming_bytes += message.len();
                self.parcels.coming.insert(id, message);
            }
            Some(false) => drop(stream.stop(GIVEN_UP)),
            None => {}
        }
        self.active = true;
    }
}
