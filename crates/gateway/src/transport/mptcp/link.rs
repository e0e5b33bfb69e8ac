//! Record layer of one connection: bytes in, records out, and vice versa.

use std::{io, ops::ControlFlow, time::Instant};

use hawser_netdev::mptcp::Stream;
use hawser_tls::{self as tls, Handshake, Opened, Session, sealed_len};
use hawser_tunnel::counters::{EndCause, GroupCounters, Traffic};
use hawser_wire::{
    Malformed,
    record::{self, Decoder, Record},
    stream::Buffer,
};

use super::{queue::Queue, write_size::WriteSize};

/// Bytes received per turn.
const RECEIVE_BUDGET: usize = 512 << 10;

/// Receive buffer, bytes; larger than a record, so that little is moved within it.
const RECEIVE_BUFFER: usize = 256 << 10;

/// Bytes of records per write, unless one record is longer.
const SEND_BATCH: usize = 64 << 10;

/// Output buffer, bytes: one sealed batch or what is left of it, and a handshake message.
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
    #[error("idle timeout")]
    Silent,
    #[error("{0}")]
    IdentityMismatch(String),
    #[error("protocol violation: {0}")]
    Protocol(&'static str),
    #[error("replaced by a newer connection of the same peer")]
    Replaced,
    #[error("no longer in the configuration")]
    Removed,
}

impl LinkError {
    /// Its counter.
    pub(super) fn cause(&self) -> EndCause {
        match self {
            Self::Io(_) => EndCause::Io,
            Self::Malformed(_) | Self::Protocol(_) => EndCause::Malformed,
            Self::Tls(_) => EndCause::Tls,
            Self::Closed | Self::Replaced | Self::Removed => EndCause::Closed,
            Self::Silent => EndCause::Silent,
            Self::IdentityMismatch(_) => EndCause::IdentityMismatch,
        }
    }
}

/// Progress of a connection.
enum Phase {
    Connecting(Option<Box<Handshake>>),
    Handshaking(Box<Handshake>),
    Plain,
    Protected(Box<Session>),
    Failed,
}

/// One connection.
pub(super) struct Link {
    pub(super) stream: Stream,
    phase: Phase,
    /// Received ciphertext; None without TLS.
    sealed: Option<Buffer>,
    decoder: Decoder,
    /// Bytes committed to the socket: a record that was sent in part must be completed.
    out: Buffer,
    write_size: WriteSize,
    /// When something was last received.
    pub(super) last_received: Instant,
    /// When something was last sent.
    pub(super) last_sent: Instant,
    /// What the poller waits for, so that it is called only on changes.
    pub(super) wants_write: bool,
}

/// Result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// No change.
    Same,
    /// Records can now be sent.
    Ready,
}

impl Link {
    /// An outgoing connection, with a handshake if it is to be encrypted.
    pub(super) fn connecting(stream: Stream, handshake: Option<Handshake>, now: Instant) -> Self {
        let sealed = handshake.is_some();
        let mut link = Self::new(stream, Phase::Connecting(handshake.map(Box::new)), sealed, now);
        link.wants_write = true;
        link
    }

    /// An incoming connection.
    pub(super) fn accepted(stream: Stream, handshake: Option<Handshake>, now: Instant) -> Self {
        let sealed = handshake.is_some();
        let phase = handshake.map_or(Phase::Plain, |h| Phase::Handshaking(Box::new(h)));
        Self::new(stream, phase, sealed, now)
    }

    fn new(stream: Stream, phase: Phase, sealed: bool, now: Instant) -> Self {
        let write_size = WriteSize::new(now);
        stream.limit_unsent(write_size.unsent());
        Self {
            stream,
            phase,
            sealed: sealed.then(|| Buffer::new(RECEIVE_BUFFER)),
            decoder: Decoder::new(RECEIVE_BUFFER, tls::MAX_CIPHERTEXT_LEN),
            out: Buffer::new(OUT_BUFFER),
            write_size,
            last_received: now,
            last_sent: now,
            wants_write: false,
        }
    }

    /// The TLS session, once the handshake is complete.
    pub(super) fn session(&self) -> Option<&Session> {
        match &self.phase {
            Phase::Protected(session) => Some(session),
            _ => None,
        }
    }

    /// Whether the socket has taken everything committed to it.
    pub(super) fn is_idle(&self) -> bool {
        self.out.is_empty()
    }

    /// Whether the connection is not established yet.
    pub(super) fn is_connecting(&self) -> bool {
        matches!(self.phase, Phase::Connecting(_))
    }

    /// Sends a record of our own, behind what is committed.
    pub(super) fn send_record(&mut self, now: Instant, record: &[u8]) -> Result<(), LinkError> {
        self.last_sent = now;
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

    /// The socket is writable for the first time: the connection is established, or has failed.
    fn connected(&mut self, now: Instant) -> Result<Progress, LinkError> {
        let Phase::Connecting(handshake) = &mut self.phase else { return Ok(Progress::Same) };
        self.stream.take_error()?;
        match self.stream.peer() {
            // A stale event of the socket that had this token before.
            Err(e) if e.kind() == io::ErrorKind::NotConnected => return Ok(Progress::Same),
            other => other?,
        };
        let Some(handshake) = handshake.take() else {
            self.phase = Phase::Plain;
            return Ok(Progress::Ready);
        };
        self.phase = Phase::Handshaking(handshake);
        self.advance_handshake(now)
    }

    /// Continues the handshake with what was received.
    fn advance_handshake(&mut self, now: Instant) -> Result<Progress, LinkError> {
        let (Phase::Handshaking(handshake), Some(sealed)) = (&mut self.phase, &mut self.sealed)
        else {
            return Ok(Progress::Same);
        };
        let mut answer = Vec::new();
        let action = handshake.advance(sealed.data_mut(), &mut answer);
        let fits = self.out.append(&answer) == answer.len();
        let action = action.inspect_err(|_| {
            // The alert that says why; the connection ends either way.
            let _ = self.stream.send(self.out.data());
        })?;
        if !fits {
            return Err(LinkError::Protocol("handshake too long"));
        }
        sealed.consume(action.consumed);
        let done = action.done;
        if done
            && let Phase::Handshaking(handshake) = std::mem::replace(&mut self.phase, Phase::Failed)
        {
            self.phase = Phase::Protected(Box::new(handshake.finish()?));
        }
        self.flush(now)?;
        Ok(if done { Progress::Ready } else { Progress::Same })
    }

    /// Receives and passes every record to `sink`, until nothing more is available, the budget is
    /// used up or the sink breaks. Remaining records stay buffered.
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
            if let Phase::Handshaking(_) = self.phase
                && self.advance_handshake(now)? == Progress::Ready
            {
                return Ok(Progress::Ready);
            }
            if self.deliver_records(&mut sink)?.is_break() || budget == 0 {
                return Ok(Progress::Same);
            }
            match self.fill(budget) {
                Ok(0) => return Err(LinkError::Closed),
                Ok(n) => {
                    self.last_received = now;
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

    /// Passes all complete records to `sink`.
    fn deliver_records(
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

    /// The socket is writable: sends what is committed, then from the queue.
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

    /// Sends whole `records`, as many as the socket takes, counts them in `sent`, and returns how
    /// many bytes are done. Call it only if [`Link::is_idle`].
    pub(super) fn transmit(
        &mut self,
        now: Instant,
        records: &[u8],
        sent: &mut Traffic,
    ) -> Result<usize, LinkError> {
        self.last_sent = now;
        let done = match &mut self.phase {
            Phase::Plain => self.transmit_plain(now, records),
            Phase::Protected(_) => self.transmit_sealed(now, records),
            _ => Ok(0),
        }?;
        count_packets(records.get(..done).unwrap_or_default(), sent);
        Ok(done)
    }

    fn transmit_plain(&mut self, now: Instant, records: &[u8]) -> Result<usize, LinkError> {
        let sent = write(&self.stream, &mut self.write_size, now, records)?;
        // The rest of a record that was begun must follow before anything else.
        let end = boundary(records, sent);
        self.out.append(records.get(sent..end).unwrap_or_default());
        Ok(end)
    }

    fn transmit_sealed(&mut self, now: Instant, records: &[u8]) -> Result<usize, LinkError> {
        let mut done = 0;
        while done < records.len() && self.is_idle() {
            let rest = records.get(done..).unwrap_or_default();
            let batch = SEND_BATCH.min(self.write_size.bytes());
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

    /// Writes what is committed, as much as the socket takes.
    fn flush(&mut self, now: Instant) -> Result<(), LinkError> {
        if !self.out.is_empty() {
            let sent = write(&self.stream, &mut self.write_size, now, self.out.data())?;
            self.out.consume(sent);
        }
        Ok(())
    }
}

/// Writes bytes to the socket in pieces of the current write size; returns how many it took.
fn write(
    stream: &Stream,
    write_size: &mut WriteSize,
    now: Instant,
    bytes: &[u8],
) -> Result<usize, LinkError> {
    let sent = write_pieces(bytes, write_size.bytes(), |piece| stream.send(piece))?;
    if write_size.sent(sent, now, || stream.segment_size()) {
        stream.limit_unsent(write_size.unsent());
    }
    Ok(sent)
}

/// Writes pieces until one is not taken whole.
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
fn count_packets(mut records: &[u8], traffic: &mut Traffic) {
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

/// End of the record that contains byte `at`; `at` itself if a record begins there.
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
