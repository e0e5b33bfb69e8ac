//! The QUIC connection of one member path.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use bytes::Bytes;
use hawser_multipath::{Kept, Rate, State, View};
use hawser_tls::{CertificateDer, Identity, is_certificate_of};
use hawser_wire::tunnel::{FILLER, HEADER_LEN, HELLO_MAX_LEN, Hello, Own};
use quinn_proto::{
    Connection, ConnectionStats, Dir, FrameStats, ReadError, StreamId, Transmit, VarInt,
};

use super::{
    controller::Shared,
    lane::Parcels,
    recover::{Inner, News},
    settings::{LARGEST, SEND_BUFFER},
    socket::Place,
    train::Train,
};

/// The other end must have said who it is after this time.
pub(super) const OPENING: Duration = Duration::from_secs(5);

/// A silent path is asked this often whether it is back.
const ASKING: Duration = Duration::from_millis(200);

/// Time that what is given to the kernel in one piece may take on the path.
const PIECE_TIME: Duration = Duration::from_millis(1);

/// Bytes that a packet gets on its way besides our header: IPv4, UDP, QUIC.
const OVERHEAD: u64 = 20 + 8 + 24 + 3;

/// What the scheduler sees of a path without a connection.
pub(super) const DARK: View = View {
    state: State::Probing,
    room: 0,
    queued: 0,
    rate: Rate::ZERO,
    delay: Duration::ZERO,
    largest: 0,
    resend: Duration::ZERO,
};

/// What [`Link::waiting`] says where nothing waits: room that the connection leaves.
const EMPTY: u64 = size_of::<Bytes>() as u64;

/// Frames with something of ours that come before an acknowledgement is due (RFC 9000 section 13.2.2).
const ANSWER_AFTER: u64 = 2;

/// A packet for nobody, as long as any; shorter ones are its beginning.
static FILLING: [u8; LARGEST as usize] = [FILLER; LARGEST as usize];

/// What a connection is closed with.
pub(super) const DONE: VarInt = VarInt::from_u32(0);
pub(super) const STRANGER: VarInt = VarInt::from_u32(1);

/// A connection.
pub(super) struct Link {
    pub(super) connection: Connection,
    pub(super) path: Shared,
    /// Whether we made it.
    pub(super) ours: bool,
    pub(super) since: Instant,
    /// Where it belongs; known from the start where we made it, else from the other end's hello.
    pub(super) place: Option<Place>,
    /// Whether both ends know each other: packets go.
    pub(super) up: bool,
    stream: Option<StreamId>,
    said: Vec<u8>,
    asked: Instant,
    /// Messages of TCP connections.
    pub(super) parcels: Parcels,
    /// Datagrams that wait in the connection: what each takes there, and what is kept of it.
    given: VecDeque<(u64, Option<Kept<Inner>>)>,
    /// When it last sent anything.
    clock: Instant,
    /// Frames that came before the last acknowledgement went.
    answered: u64,
    /// Whether something has happened that may give it something to send.
    pub(super) active: bool,
}

/// What the other end has said, in full.
pub(super) struct Said {
    pub(super) place: Place,
    pub(super) session: [u8; 16],
    pub(super) lane: Option<Own>,
    pub(super) branch: String,
}

impl Link {
    pub(super) fn new(
        connection: Connection,
        path: Shared,
        place: Option<Place>,
        now: Instant,
    ) -> Self {
        Self {
            connection,
            path,
            ours: place.is_some(),
            since: now,
            place,
            up: false,
            stream: None,
            said: Vec::new(),
            asked: now,
            parcels: Parcels::default(),
            given: VecDeque::new(),
            clock: now,
            answered: 0,
            active: true,
        }
    }

    /// Says who we are, on the stream that we open.
    pub(super) fn greet(&mut self, hello: &Hello<'_>) {
        self.stream = self.stream.or_else(|| self.connection.streams().open(Dir::Bi));
        let Some(stream) = self.stream else { return };
        let mut stream = self.connection.send_stream(stream);
        // The window of a new stream is larger than a hello.
        let _ = stream.write(&hello.emit());
        let _ = stream.finish();
        self.active = true;
    }

    /// Reads what the other end says of itself. None: not all of it has come.
    pub(super) fn listen(&mut self) -> Option<Result<Said, String>> {
        self.stream = self.stream.or_else(|| self.connection.streams().accept(Dir::Bi));
        let mut stream = self.connection.recv_stream(self.stream?);
        let mut chunks = match stream.read(true) {
            Ok(chunks) => chunks,
            Err(error) => return Some(Err(error.to_string())),
        };
        let complete = loop {
            match chunks.next(HELLO_MAX_LEN) {
                Ok(Some(chunk)) if self.said.len() <= HELLO_MAX_LEN => {
                    self.said.extend_from_slice(&chunk.bytes);
                }
                Ok(Some(_)) => break Some(Err("it says too much".to_owned())),
                Ok(None) => break Some(Ok(())),
                Err(ReadError::Blocked) => break None,
                Err(error) => break Some(Err(error.to_string())),
            }
        };
        let _ = chunks.finalize();
        self.active = true;
        complete.map(|result| result.and_then(|()| self.understand()))
    }

    fn understand(&self) -> Result<Said, String> {
        let hello = Hello::parse(&self.said).map_err(|error| error.to_string())?;
        if !self.is_with(hello.branch) {
            return Err(format!("its certificate is not that of branch {:?}", hello.branch));
        }
        let Hello { id, group, member, session, lane, branch } = hello;
        let place = Place { peer: id, group, member };
        Ok(Said { place, session, lane, branch: branch.to_owned() })
    }

    /// Whether the other end's certificate is that of a branch.
    fn is_with(&self, name: &str) -> bool {
        self.chain().first().is_some_and(|first| is_certificate_of(first, name))
    }

    /// Whether one of the other end's certificates has been revoked.
    pub(super) fn is_revoked(&self, identity: &Identity) -> bool {
        self.chain().iter().any(|certificate| identity.has_revoked(certificate))
    }

    /// The other end's certificates, its own first.
    fn chain(&self) -> Vec<CertificateDer<'static>> {
        let identity = self.connection.crypto_session().peer_identity();
        let chain = identity.and_then(|any| any.downcast::<Vec<CertificateDer<'static>>>().ok());
        chain.map_or(Vec::new(), |chain| *chain)
    }

    /// Datagram bytes that wait in the connection.
    fn waiting(&mut self) -> u64 {
        SEND_BUFFER.saturating_sub(self.connection.datagrams().send_buffer_space()) as u64
    }

    /// What the scheduler sees of the path, which may be given `leeway` bytes more than it may send.
    pub(super) fn view(&mut self, now: Instant, leeway: u64) -> View {
        let largest = self.connection.datagrams().max_size().unwrap_or(0);
        let largest = Self::weight(largest.saturating_sub(HEADER_LEN) as u64);
        let waiting = self.waiting() + self.parcels.waiting();
        let path = self.path.get();
        let view = path.view(now, waiting, largest);
        let most = path.window() + leeway;
        View { room: most.saturating_sub(path.in_flight() + waiting), ..view }
    }

    /// Bytes that a packet of so many bytes has on the path.
    pub(super) fn weight(packet: u64) -> u64 {
        packet + OVERHEAD + HEADER_LEN as u64
    }

    /// Datagrams to be given to the kernel in one piece: what the path carries in a millisecond, as Linux
    /// sizes TCP's (`tcp_tso_autosize`). A shaper that lets a longer piece pass as a whole would make
    /// one long packet of it, with one acknowledgement for all.
    #[allow(clippy::cast_possible_truncation)] // saturates above what any batch has
    fn batch(&self, most: usize) -> usize {
        let bytes = self.path.get().congestion().rate().bytes(PIECE_TIME);
        (bytes as usize / usize::from(LARGEST)).clamp(1, most)
    }

    /// Fills a path of which nothing is known yet with packets for nobody (docs/adr/0139).
    pub(super) fn fill(&mut self, now: Instant) {
        while self.up && self.path.get().is_new() {
            let size = self.connection.datagrams().max_size().unwrap_or(0).min(FILLING.len());
            let packet = Bytes::from_static(FILLING.get(..size).unwrap_or_default());
            let has_room = self.view(now, 0).room >= size as u64 + OVERHEAD;
            if size == 0 || !has_room || !self.give(packet, None) {
                return;
            }
        }
    }

    /// Sends what it has, at most so many datagrams in one piece; `send` gives one to the kernel.
    pub(super) fn flush(
        &mut self,
        now: Instant,
        most: usize,
        train: &mut Train,
        mut send: impl FnMut(&Transmit, &[u8]) -> bool,
    ) {
        let batch = self.batch(most);
        let streams = self.parcels.are_under_way();
        self.parcels.note_lost(self.path.get().totals().lost);
        self.path.hold(streams);
        while let Some(transmit) = self.make(now, batch, streams, &mut train.buffer) {
            // What the kernel does not take counts as lost on the path.
            train.push(transmit, batch, &mut send);
        }
        train.finish(&mut send);
        if !self.path.held_back() {
            self.parcels.all_sent();
        }
    }

    /// The next datagrams to be sent, of which it notes what they carry. Of packets that are kept it must be known
    /// which of them are lost, by when they were sent: so these go one at a time.
    fn make(
        &mut self,
        now: Instant,
        batch: usize,
        streams: bool,
        buffer: &mut Vec<u8>,
    ) -> Option<Transmit> {
        buffer.clear();
        let before = self.waiting();
        let most = match (self.given.is_empty(), streams) {
            (false, _) => 1,
            (true, true) => batch.min(self.path.free(LARGEST)),
            (true, false) => batch,
        };
        self.clock = now.max(self.clock + Duration::from_nanos(1));
        let prior = streams.then(|| self.connection.stats());
        if let Some(prior) = &prior {
            self.path.answer(frames_of(&prior.frame_rx) >= self.answered + ANSWER_AFTER);
        }
        let transmit = self.connection.poll_transmit(self.clock, most, buffer)?;
        let datagrams = before.saturating_sub(self.waiting());
        self.departed(datagrams);
        let gone = prior.map_or(datagrams, |prior| self.carried(&prior, transmit.size as u64));
        if gone > 0 {
            self.parcels.note_sent(&transmit);
            self.path.get().on_sent(now, gone);
        }
        Some(transmit)
    }

    /// Bytes under way of what was just made. What carries acknowledgements alone is not acknowledged, and so never
    /// under way.
    fn carried(&mut self, prior: &ConnectionStats, size: u64) -> u64 {
        let after = self.connection.stats().frame_tx;
        if after.acks > prior.frame_tx.acks {
            self.answered = frames_of(&prior.frame_rx);
        }
        if frames_of(&after) > frames_of(&prior.frame_tx) { size } else { 0 }
    }

    /// Datagrams have left that took so many bytes in the connection.
    fn departed(&mut self, bytes: u64) {
        let mut left = bytes;
        while left > 0
            && let Some((taken, kept)) = self.given.pop_front()
        {
            left = left.saturating_sub(taken);
            if let Some(packet) = kept {
                self.path.ledger().sent(self.clock, packet);
            }
        }
    }

    /// Gives it a datagram, which goes again if it is lost where something is kept of it.
    pub(super) fn give(&mut self, datagram: Bytes, kept: Option<Kept<Inner>>) -> bool {
        self.active = true;
        let before = self.waiting();
        if before == EMPTY && !self.given.is_empty() {
            self.forget_given();
        }
        if self.connection.datagrams().send(datagram, false).is_err() {
            return false;
        }
        if kept.is_some() && self.given.is_empty() && before > EMPTY {
            // What was not worth a note by itself leaves first.
            self.given.push_back((before - EMPTY, None));
        }
        if kept.is_some() || !self.given.is_empty() {
            let taken = self.waiting().saturating_sub(before);
            self.given.push_back((taken, kept));
        }
        true
    }

    /// Datagrams that wait have become too long for the path, and the connection has dropped them.
    fn forget_given(&mut self) {
        for packet in self.given.drain(..).filter_map(|(_, kept)| kept) {
            self.path.ledger().not_sent(packet);
        }
    }

    /// What became of packets since it was last asked.
    pub(super) fn news(&mut self) -> News {
        self.path.ledger().news()
    }

    /// What became of packets, now that nothing more will.
    pub(super) fn last_news(&mut self) -> News {
        self.forget_given();
        self.path.ledger().give_up();
        self.news()
    }

    /// Asks a silent path whether it is back.
    pub(super) fn ask(&mut self, now: Instant) {
        let silent = matches!(self.path.get().state(now), State::Degraded | State::Down);
        if self.up && silent && now.saturating_duration_since(self.asked) >= ASKING {
            self.asked = now;
            self.connection.ping();
            self.active = true;
        }
    }
}

/// Frames that carry packets, or messages.
fn frames_of(stats: &FrameStats) -> u64 {
    stats.stream + stats.datagram
}

#[cfg(test)]
mod tests {
    use hawser_wire::tunnel::is_filler;

    use super::*;
    use crate::quic::simulation::{Gateway, Simulation, Wire};

    /// Has nothing to send.
    #[derive(Default)]
    struct Idle {
        received: usize,
    }

    impl Gateway for Idle {
        fn take(&mut self, bytes: Vec<u8>) {
            assert!(is_filler(&bytes));
            self.received += bytes.len();
        }

        fn give(&mut self, now: Instant, links: &mut [&mut Link]) -> bool {
            for link in links {
                link.up = true;
                link.fill(now);
            }
            false
        }
    }

    #[test]
    fn a_path_is_filled_once_when_it_comes_up() {
        let wires = [Wire { mbps: 50.0, delay: Duration::from_millis(20), loss: 0.0 }; 2];
        let mut simulation = Simulation::new(&wires, 3, [Idle::default(), Idle::default()]);
        let mut received = [2, 6].map(|seconds| {
            simulation.run(simulation.now + Duration::from_secs(seconds));
            [0, 1].map(|side| simulation.gateways[side].received)
        });
        assert_eq!(received[0], received[1], "and no more later");
        received[0].sort_unstable();
        assert!(received[0][0] > 2 * 60_000 && received[0][1] < 2 * 300_000, "{received:?}");
    }
}
