//! One connection to a peer: bytes in, records out, and the other way round.

use std::{io, ops::ControlFlow, time::Instant};

use hawser_netdev::mptcp::Stream;
use hawser_tls::{self as tls, Handshake, Opened, Session, sealed_len};
use hawser_tunnel::counters::{EndCause, GroupCounters, Traffic};
use hawser_wire::{
    Malformed,
    record::{self, Decoder, Record},
    stream::Buffer,
};

use super::{queue::Queue, stride::Stride};

/// Bytes received before others get their turn.
const RECEIVE_BUDGET: usize = 512 << 10;

/// Bytes received at once, at most; more than a record, so that few are moved within the buffer.
const RECEIVE_BUFFER: usize = 256 << 10;

/// Bytes of records given to the socket at once, unless one record is longer.
const SEND_BATCH: usize = 64 << 10;

/// Bytes that can be on their way to the socket: a batch, sealed, or what is left of one, and a
/// handshake message.
const OUT_BUFFER: usize = sealed_len(record::MAX_LEN + SEND_BATCH) + (16 << 10);

/// Why a connection has ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum LinkError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("malformed record: {0}")]
    Malformed(#[from] Malformed),
    #[error("{0}")]
    Tls(#[from] tls::Error),
    #[error("the peer closed the connection")]
    Closed,
    #[error("nothing heard from the peer for too long")]
    Silent,
    #[error("{0}")]
    Stranger(String),
    #[error("the peer does not keep to the protocol: {0}")]
    Protocol(&'static str),
    #[error("replaced by a newer connection of the same peer")]
    Replaced,
    #[error("no longer in the configuration")]
    Removed,
}

impl LinkError {
    /// Its name in counters.
    pub(super) fn cause(&self) -> EndCause {
        match self {
            Self::Io(_) => EndCause::Io,
            Self::Malformed(_) | Self::Protocol(_) => EndCause::Malformed,
            Self::Tls(_) => EndCause::Tls,
            Self::Closed | Self::Replaced | Self::Removed => EndCause::Closed,
            Self::Silent => EndCause::Silent,
            Self::Stranger(_) => EndCause::Stranger,
        }
    }
}

/// How far a connection has come.
enum Phase {
    Connecting(Option<Box<Handshake>>),
    Shaking(Box<Handshake>),
    Plain,
    Protected(Box<Session>),
    Failed,
}

/// One connection.
pub(super) struct Link {
    pub(super) stream: Stream,
    phase: Phase,
    /// What was received and is still sealed; None where nothing is ever sealed.
    sealed: Option<Buffer>,
    decoder: Decoder,
    /// What has been promised to the socket: a record of which a part was sent must be sent whole.
    out: Buffer,
    stride: Stride,
    /// When something last came.
    pub(super) heard: Instant,
    /// When something was last sent.
    pub(super) said: Instant,
    /// What is being waited for, so that the poller is only called when that changes.
    pub(super) waits_to_write: bool,
}

/// What a call of [`Link::connected`] or [`Link::receive`] found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Nothing new.
    Same,
    /// Records can now be sent.
    Ready,
}

impl Link {
    /// A connection that is being made; with a handshake where it is to be encrypted.
    pub(super) fn connecting(stream: Stream, handshake: Option<Handshake>, now: Instant) -> Self {
        let sealed = handshake.is_some();
        let mut link = Self::new(stream, Phase::Connecting(handshake.map(Box::new)), sealed, now);
        link.waits_to_write = true;
        link
    }

    /// A connection that was taken.
    pub(super) fn accepted(stream: Stream, handshake: Option<Handshake>, now: Instant) -> Self {
        let sealed = handshake.is_some();
        let phase = handshake.map_or(Phase::Plain, |h| Phase::Shaking(Box::new(h)));
        Self::new(stream, phase, sealed, now)
    }

    fn new(stream: Stream, phase: Phase, sealed: bool, now: Instant) -> Self {
        let stride = Stride::new(now);
        stream.limit_unsent(stride.unsent());
        Self {
            stream,
            phase,
            sealed: sealed.then(|| Buffer::new(RECEIVE_BUFFER)),
            decoder: Decoder::new(RECEIVE_BUFFER, tls::MAX_CIPHERTEXT_LEN),
            out: Buffer::new(OUT_BUFFER),
            stride,
            heard: now,
            said: now,
            waits_to_write: false,
        }
    }

    /// The TLS session, once there is one.
    pub(super) fn session(&self) -> Option<&Session> {
        match &self.phase {
            Phase::Protected(session) => Some(session),
            _ => None,
        }
    }

    /// Whether everything that was promised to the socket has been given to it.
    pub(super) fn is_idle(&self) -> bool {
        self.out.is_empty()
    }

    /// Whether the connection does not stand yet.
    pub(super) fn is_connecting(&self) -> bool {
        matches!(self.phase, Phase::Connecting(_))
    }

    /// Sends a record of our own, behind what was promised to the socket.
    pub(super) fn say(&mut self, now: Instant, record: &[u8]) -> Result<(), LinkError> {
        self.said = now;
        let space = self.out.space(sealed_len(record.len()));
        let len = match &mut self.phase {
            Phase::Protected(session) => session.seal(record, space)?,
            Phase::Plain => {
                let place = space.get_mut(..record.len()).ok_or(tls::Error::NoRoom)?;
                place.copy_from_slice(record);
                record.len()
            }
            _ => return Ok(()),
        };
        self.out.filled(len);
        self.flush(now)
    }

    /// The socket can be written for the first time: the connection stands, or has failed.
    fn connected(&mut self, now: Instant) -> Result<Progress, LinkError> {
        let Phase::Connecting(handshake) = &mut self.phase else { return Ok(Progress::Same) };
        self.stream.take_error()?;
        match self.stream.peer() {
            // An event of the socket that had this place before.
            Err(e) if e.kind() == io::ErrorKind::NotConnected => return Ok(Progress::Same),
            other => other?,
        };
        let Some(handshake) = handshake.take() else {
            self.phase = Phase::Plain;
            return Ok(Progress::Ready);
        };
        self.phase = Phase::Shaking(handshake);
        self.shake(now)
    }

    /// Goes on with the handshake, as far as what was received allows.
    fn shake(&mut self, now: Instant) -> Result<Progress, LinkError> {
        let (Phase::Shaking(handshake), Some(sealed)) = (&mut self.phase, &mut self.sealed) else {
            return Ok(Progress::Same);
        };
        let mut answer = Vec::new();
        let step = handshake.advance(sealed.data_mut(), &mut answer);
        let fits = self.out.append(&answer) == answer.len();
        let step = step.inspect_err(|_| {
            // The alert that says why; the connection ends either way.
            let _ = self.stream.send(self.out.data());
        })?;
        if !fits {
            return Err(LinkError::Protocol("handshake too long"));
        }
        sealed.consume(step.consumed);
        let done = step.done;
        if done && let Phase::Shaking(handshake) = std::mem::replace(&mut self.phase, Phase::Failed)
        {
            self.phase = Phase::Protected(Box::new(handshake.finish()?));
        }
        self.flush(now)?;
        Ok(if done { Progress::Ready } else { Progress::Same })
    }

    /// Receives and gives every record to `sink`, until nothing more has come, the budget is used up or
    /// the sink breaks off. What it has not taken stays.
    pub(super) fn receive(
        &mut self,
        now: Instant,
        mut sink: impl FnMut(Record<'_>) -> Result<ControlFlow<()>, LinkError>,
    ) -> Result<Progress, LinkError> {
        let mut budget = RECEIVE_BUDGET;
        loop {
            if let Phase::Connecting(_) = self.phase {
                return Ok(Progress::Same);
            }
            if let Phase::Shaking(_) = self.phase
                && self.shake(now)? == Progress::Ready
            {
                return Ok(Progress::Ready);
            }
            if self.hand_out(&mut sink)?.is_break() || budget == 0 {
                return Ok(Progress::Same);
            }
            match self.fill(budget) {
                Ok(0) => return Err(LinkError::Closed),
                Ok(n) => {
                    self.heard = now;
                    budget = budget.saturating_sub(n);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(Progress::Same),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Reads from the socket.
    fn fill(&mut self, limit: usize) -> io::Result<usize> {
        if let Some(sealed) = &mut self.sealed {
            let n = self.stream.receive(limited(sealed.space(tls::MAX_CIPHERTEXT_LEN), limit))?;
            sealed.filled(n);
            return Ok(n);
        }
        let n = self.stream.receive(limited(self.decoder.space(), limit))?;
        self.decoder.filled(n);
        Ok(n)
    }

    /// Gives all records that are complete to `sink`.
    fn hand_out(
        &mut self,
        sink: &mut impl FnMut(Record<'_>) -> Result<ControlFlow<()>, LinkError>,
    ) -> Result<ControlFlow<()>, LinkError> {
        loop {
            while let Some(record) = self.decoder.next()? {
                if sink(record)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            let (Phase::Protected(session), Some(sealed)) = (&mut self.phase, &mut self.sealed)
            else {
                return Ok(ControlFlow::Continue(()));
            };
            match session.open(sealed.data(), self.decoder.space())? {
                Opened::Incomplete => return Ok(ControlFlow::Continue(())),
                Opened::Closed => return Err(LinkError::Closed),
                Opened::Record { consumed, written } => {
                    sealed.consume(consumed);
                    self.decoder.filled(written);
                }
            }
        }
    }

    /// The socket can be written: sends what was promised, then from the queue.
    pub(super) fn writable(
        &mut self,
        now: Instant,
        queue: &mut Queue,
        counters: &mut GroupCounters,
    ) -> Result<Progress, LinkError> {
        if let Phase::Connecting(_) = self.phase {
            return self.connected(now);
        }
        self.flush(now)?;
        while self.is_idle() && !queue.is_empty() && self.may_send() {
            counters.drops.queue_delay += queue.prune(now);
            let done = self.transmit(now, queue.front(SEND_BATCH), &mut counters.sent)?;
            if done == 0 {
                break;
            }
            queue.consume(done);
        }
        Ok(Progress::Same)
    }

    fn may_send(&self) -> bool {
        matches!(self.phase, Phase::Plain | Phase::Protected(_))
    }

    /// Sends whole `records`, as many as the socket takes, counts them in `sent`, and says how many
    /// bytes of them are done with. Only to be called when [`Link::is_idle`].
    pub(super) fn transmit(
        &mut self,
        now: Instant,
        records: &[u8],
        sent: &mut Traffic,
    ) -> Result<usize, LinkError> {
        self.said = now;
        let done = match &mut self.phase {
            Phase::Plain => self.transmit_plain(now, records),
            Phase::Protected(_) => self.transmit_sealed(now, records),
            _ => Ok(0),
        }?;
        tally(records.get(..done).unwrap_or_default(), sent);
        Ok(done)
    }

    fn transmit_plain(&mut self, now: Instant, records: &[u8]) -> Result<usize, LinkError> {
        let sent = write(&self.stream, &mut self.stride, now, records)?;
        // The rest of a record that was begun must follow before anything else.
        let end = boundary(records, sent);
        self.out.append(records.get(sent..end).unwrap_or_default());
        Ok(end)
    }

    fn transmit_sealed(&mut self, now: Instant, records: &[u8]) -> Result<usize, LinkError> {
        let mut done = 0;
        while done < records.len() && self.is_idle() {
            let rest = records.get(done..).unwrap_or_default();
            let batch = SEND_BATCH.min(self.stride.bytes());
            let end = if rest.len() <= batch { rest.len() } else { boundary(rest, batch) };
            let batch = rest.get(..end).unwrap_or_default();
            let Phase::Protected(session) = &mut self.phase else { break };
            let sealed = session.seal(batch, self.out.space(sealed_len(batch.len())))?;
            self.out.filled(sealed);
            done += end;
            self.flush(now)?;
        }
        Ok(done)
    }

    /// Gives the socket what it was promised, as much as it takes.
    fn flush(&mut self, now: Instant) -> Result<(), LinkError> {
        if !self.out.is_empty() {
            let sent = write(&self.stream, &mut self.stride, now, self.out.data())?;
            self.out.consume(sent);
        }
        Ok(())
    }
}

/// Gives the socket bytes, a stride at a time, and says how many it took.
fn write(
    stream: &Stream,
    stride: &mut Stride,
    now: Instant,
    bytes: &[u8],
) -> Result<usize, LinkError> {
    let sent = write_pieces(bytes, stride.bytes(), |piece| stream.send(piece))?;
    if stride.sent(sent, now, || stream.segment_size()) {
        stream.limit_unsent(stride.unsent());
    }
    Ok(sent)
}

/// Sends pieces until one is not taken whole.
fn write_pieces(
    bytes: &[u8],
    size: usize,
    mut give: impl FnMut(&[u8]) -> io::Result<usize>,
) -> io::Result<usize> {
    let mut sent = 0;
    for piece in bytes.chunks(size) {
        match give(piece) {
            Ok(n) => sent += n,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
        if !sent.is_multiple_of(size) {
            break;
        }
    }
    Ok(sent)
}

fn limited(space: &mut [u8], limit: usize) -> &mut [u8] {
    let n = space.len().min(limit);
    space.get_mut(..n).unwrap_or_default()
}

/// Counts the packets in whole records.
fn tally(mut records: &[u8], traffic: &mut Traffic) {
    while let Ok(Some((record, len))) = Record::parse(records) {
        match record {
            Record::Packet(packet) => traffic.add(1, packet.bytes().len()),
            Record::Segments(packet, cut) => {
                traffic.add(cut.segments(packet.bytes()), packet.bytes().len());
            }
            Record::Hello(_) | Record::Keepalive => {}
        }
        records = records.get(len..).unwrap_or_default();
    }
}

/// Where the record ends that byte `at` of `records` lies in; `at` itself where one begins there.
fn boundary(records: &[u8], at: usize) -> usize {
    let mut end = 0;
    while end < at {
        match record::emitted_len(records.get(end..).unwrap_or_default()) {
            Some(len) => end += len,
            None => return records.len(),
        }
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_write_ends_the_turn() {
        let mut room = 25;
        let mut seen = Vec::new();
        let sent = write_pieces(&[1, 2, 3, 4, 5, 6, 7].repeat(10), 10, |piece| {
            let n = piece.len().min(room);
            room = if n < piece.len() { 100 } else { room - n };
            seen.extend_from_slice(&piece[..n]);
            Ok(n)
        });
        assert_eq!(sent.unwrap(), 25);
        assert_eq!(seen, &[1, 2, 3, 4, 5, 6, 7].repeat(10)[..25]);
    }

    #[test]
    fn a_record_is_never_cut() {
        let record = |len: u16| {
            let header = record::packet_header(len, false);
            [header.as_slice(), &vec![0; len.into()]].concat()
        };
        let records = [record(97), record(17), record(47)].concat();
        let ends: Vec<_> =
            [0, 1, 99, 100, 101, 120, 121, 169, 170].map(|at| boundary(&records, at)).into();
        assert_eq!(ends, [0, 100, 100, 100, 120, 120, 170, 170, 170]);
    }
}
