//! The QUIC connection of one member path.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use bytes::Bytes;
use hawser_multipath::{Kept, Rate, State, View};
use hawser_tls::{CertificateDer, Identity, is_certificate_of};
use hawser_wire::tunnel::{HEADER_LEN, HELLO_MAX_LEN, Hello, OwnAddresses, PADDING};
use quinn_proto::{
    Connection, ConnectionHandle, ConnectionStats, Dir, FrameStats, ReadError, StreamId, Transmit,
    VarInt,
};

use super::{
    batch::GsoBatch,
    controller::SharedPath,
    in_flight::{Outcomes, Stored},
    messages::{EncodedMessage, MessageStreams},
    sizes::{LARGEST, SEND_BUFFER},
};

/// The other end must have said who it is after this time.
pub(crate) const OPENING: Duration = Duration::from_secs(5);

/// A silent path is asked this often whether it is back.
const PROBING: Duration = Duration::from_millis(200);

/// Time that what is given to the kernel in one piece may take on the path.
const PIECE_TIME: Duration = Duration::from_millis(1);

/// Bytes that a packet gets on its way besides our header: IPv4, UDP, QUIC.
const OVERHEAD: u64 = 20 + 8 + 24 + 3;

/// What the scheduler sees of a path without a connection.
pub(crate) const NO_CONNECTION: View = View {
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
const ACK_AFTER: u64 = 2;

/// A packet for nobody, as long as any; shorter ones are its beginning.
static FILLING: [u8; LARGEST as usize] = [PADDING; LARGEST as usize];

/// Error codes that a connection is closed with.
pub(crate) const CLOSED: VarInt = VarInt::from_u32(0);
pub(crate) const REFUSED: VarInt = VarInt::from_u32(1);

/// A member path: of which peer and group, and its place there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PathId {
    /// Number of the peer.
    pub peer: u16,
    /// Number of the path group.
    pub group: u8,
    /// Place of the path in its group.
    pub member: u8,
}

/// The connection of a member path, or one that is to become that or has been.
pub(crate) struct Link {
    pub(crate) connection: Connection,
    /// Its socket, and its handle at the endpoint there.
    pub(crate) at: (usize, ConnectionHandle),
    pub(crate) path: SharedPath,
    /// Whether we made it.
    pub(crate) ours: bool,
    pub(crate) since: Instant,
    /// Where it belongs; known from the start where we made it, else from the other end's hello.
    pub(crate) id: Option<PathId>,
    hello_stream: Option<StreamId>,
    /// What has come of the other end's hello.
    hello: Vec<u8>,
    probed: Instant,
    /// Messages of TCP connections.
    pub(crate) messages: MessageStreams,
    /// Datagrams that wait in the connection: what each takes there, and what is stored of it.
    queued: VecDeque<(u64, Option<Kept<Stored>>)>,
    /// When it last sent anything.
    clock: Instant,
    /// Frames that had come when the last acknowledgement was sent.
    acknowledged: u64,
    /// Whether it is sending, and with messages in flight.
    sending: Option<bool>,
    /// Whether something has happened that may give it something to send.
    pub(crate) active: bool,
    /// Whether datagrams may have come.
    pub(crate) unread: bool,
}

/// The other end's hello.
pub(crate) struct PeerHello {
    pub(crate) id: PathId,
    pub(crate) session: [u8; 16],
    pub(crate) proxy: Option<OwnAddresses>,
    pub(crate) branch: String,
}

impl Link {
    pub(crate) fn new(
        connection: Connection,
        at: (usize, ConnectionHandle),
        path: SharedPath,
        id: Option<PathId>,
        now: Instant,
    ) -> Self {
        Self {
            connection,
            at,
            path,
            ours: id.is_some(),
            since: now,
            id,
            hello_stream: None,
            hello: Vec::new(),
            probed: now,
            messages: MessageStreams::default(),
            queued: VecDeque::new(),
            clock: now,
            acknowledged: 0,
            sending: None,
            active: true,
            unread: false,
        }
    }

    /// Sends our hello, on the stream that the connecting end opens.
    pub(crate) fn send_hello(&mut self, hello: &Hello<'_>) {
        self.hello_stream = self.hello_stream.or_else(|| self.connection.streams().open(Dir::Bi));
        let Some(stream) = self.hello_stream else { return };
        let mut stream = self.connection.send_stream(stream);
        // The window of a new stream is larger than a hello.
        let _ = stream.write(&hello.emit());
        let _ = stream.finish();
        self.active = true;
    }

    /// Reads the other end's hello. None: not all of it has come.
    pub(crate) fn read_hello(&mut self) -> Option<Result<PeerHello, String>> {
        self.hello_stream = self.hello_stream.or_else(|| self.connection.streams().accept(Dir::Bi));
        let mut stream = self.connection.recv_stream(self.hello_stream?);
        let mut chunks = match stream.read(true) {
            Ok(chunks) => chunks,
            Err(error) => return Some(Err(error.to_string())),
        };
        let complete = loop {
            match chunks.next(HELLO_MAX_LEN) {
                Ok(Some(chunk)) if self.hello.len() <= HELLO_MAX_LEN => {
                    self.hello.extend_from_slice(&chunk.bytes);
                }
                Ok(Some(_)) => break Some(Err("it says too much".to_owned())),
                Ok(None) => break Some(Ok(())),
                Err(ReadError::Blocked) => break None,
                Err(error) => break Some(Err(error.to_string())),
            }
        };
        let _ = chunks.finalize();
        self.active = true;
        complete.map(|result| result.and_then(|()| self.parse_hello()))
    }

    fn parse_hello(&self) -> Result<PeerHello, String> {
        let hello = Hello::parse(&self.hello).map_err(|error| error.to_string())?;
        if !self.is_with(hello.branch) {
            return Err(format!("its certificate is not that of branch {:?}", hello.branch));
        }
        let Hello { id, group, member, session, proxy, branch } = hello;
        let id = PathId { peer: id, group, member };
        Ok(PeerHello { id, session, proxy, branch: branch.to_owned() })
    }

    /// Whether the other end's certificate is that of a branch.
    fn is_with(&self, name: &str) -> bool {
        self.chain().first().is_some_and(|first| is_certificate_of(first, name))
    }

    /// Whether one of the other end's certificates has been revoked.
    pub(crate) fn is_revoked(&self, identity: &Identity) -> bool {
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
    pub(crate) fn view(&mut self, now: Instant, leeway: u64) -> View {
        let largest = self.connection.datagrams().max_size().unwrap_or(0);
        let largest = Self::weight(largest.saturating_sub(HEADER_LEN) as u64);
        let waiting = self.waiting() + self.messages.waiting();
        let path = self.path.get();
        let view = path.view(now, waiting, largest);
        let most = path.window() + leeway;
        View { room: most.saturating_sub(path.in_flight() + waiting), ..view }
    }

    /// Bytes that a packet of so many bytes has on the path.
    pub(crate) fn weight(packet: u64) -> u64 {
        packet + OVERHEAD + HEADER_LEN as u64
    }

    /// Datagrams to be given to the kernel in one piece: what the path carries in a millisecond, as Linux
    /// sizes TCP's (`tcp_tso_autosize`). A shaper that lets a longer piece pass as a whole would make
    /// one long packet of it, with one acknowledgement for all.
    #[allow(clippy::cast_possible_truncation)] // saturates above what any batch has
    fn batch(&self, most: usize) -> usize {
        let bytes = self.path.get().congestion().rate().bytes(PIECE_TIME);
        (bytes as usize / usize::from(LARGEST)).clamp(1, most.max(1))
    }

    /// Fills a path of which nothing is known yet with packets for nobody (docs/design/congestion-control.md).
    pub(crate) fn fill(&mut self, now: Instant) {
        while self.path.get().is_new() {
            let size = self.connection.datagrams().max_size().unwrap_or(0).min(FILLING.len());
            let packet = Bytes::from_static(FILLING.get(..size).unwrap_or_default());
            let has_room = self.view(now, 0).room >= size as u64 + OVERHEAD;
            if size == 0 || !has_room || !self.send(packet, None) {
                return;
            }
        }
    }

    /// It may have something to send, whether it was sending or not.
    pub(crate) fn restart(&mut self) {
        (self.sending, self.active) = (None, true);
    }

    /// The next datagrams to be sent in one piece, at most `most` of them; their bytes are in `batch`.
    pub(crate) fn poll_transmit(
        &mut self,
        now: Instant,
        most: usize,
        batch: &mut GsoBatch,
    ) -> Option<Transmit> {
        let streams = self.messages.has_unacked();
        if self.sending != Some(streams) {
            self.messages.note_lost_bytes(self.path.get().totals().lost);
            self.path.hold(streams);
            (self.sending, self.active) = (Some(streams), false);
        }
        let most = self.batch(most);
        // What the kernel does not take counts as lost on the path.
        let transmit = batch.poll(most, |buffer| self.make(now, most, streams, buffer));
        if transmit.is_none() {
            self.sending = None;
            if !self.path.held_back() {
                self.messages.all_sent();
            }
        }
        transmit
    }

    /// The next datagrams to be sent, of which it notes what they carry. Of retransmittable
    /// packets it must be known which are lost, by the time at which they were sent: so these go one at a time.
    fn make(
        &mut self,
        now: Instant,
        batch: usize,
        streams: bool,
        buffer: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let before = self.waiting();
        let most = match (self.queued.is_empty(), streams) {
            (false, _) => 1,
            (true, true) => batch.min(self.path.free(LARGEST)),
            (true, false) => batch,
        };
        self.clock = now.max(self.clock + Duration::from_nanos(1));
        let prior = streams.then(|| self.connection.stats());
        if let Some(prior) = &prior {
            self.path.set_ack_due(frames_of(&prior.frame_rx) >= self.acknowledged + ACK_AFTER);
        }
        let transmit = self.connection.poll_transmit(self.clock, most, buffer)?;
        let datagrams = before.saturating_sub(self.waiting());
        self.note_sent(datagrams);
        let gone = prior.map_or(datagrams, |prior| self.carried(&prior, transmit.size as u64));
        if gone > 0 {
            self.messages.note_sent(&transmit);
            self.path.get().on_sent(now, gone);
        }
        Some(transmit)
    }

    /// Bytes under way of what was just made. What carries acknowledgements alone is not acknowledged, and so never
    /// under way.
    fn carried(&mut self, prior: &ConnectionStats, size: u64) -> u64 {
        let after = self.connection.stats().frame_tx;
        if after.acks > prior.frame_tx.acks {
            self.acknowledged = frames_of(&prior.frame_rx);
        }
        if frames_of(&after) > frames_of(&prior.frame_tx) { size } else { 0 }
    }

    /// Datagrams have left that took so many bytes in the connection.
    fn note_sent(&mut self, bytes: u64) {
        let mut left = bytes;
        while left > 0
            && let Some((taken, stored)) = self.queued.pop_front()
        {
            left = left.saturating_sub(taken);
            if let Some(packet) = stored {
                self.path.in_flight().sent(self.clock, packet);
            }
        }
    }

    /// Sends a datagram, which is retransmitted if it is lost where it is `stored`.
    pub(crate) fn send(&mut self, datagram: Bytes, stored: Option<Kept<Stored>>) -> bool {
        self.active = true;
        let before = self.waiting();
        if before == EMPTY && !self.queued.is_empty() {
            self.forget_queued();
        }
        if self.connection.datagrams().send(datagram, false).is_err() {
            return false;
        }
        if stored.is_some() && self.queued.is_empty() && before > EMPTY {
            // What was not worth a note by itself leaves first.
            self.queued.push_back((before - EMPTY, None));
        }
        if stored.is_some() || !self.queued.is_empty() {
            let taken = self.waiting().saturating_sub(before);
            self.queued.push_back((taken, stored));
        }
        true
    }

    /// Datagrams that wait have become too long for the path, and the connection has dropped them.
    fn forget_queued(&mut self) {
        for packet in self.queued.drain(..).filter_map(|(_, stored)| stored) {
            self.path.in_flight().not_sent(packet);
        }
    }

    /// What became of retransmittable packets since it was last asked.
    pub(crate) fn outcomes(&mut self) -> Outcomes {
        self.path.in_flight().take_outcomes()
    }

    /// What became of them when the path is given up: all that is in flight is lost.
    pub(crate) fn last_outcomes(&mut self) -> Outcomes {
        self.forget_queued();
        self.path.in_flight().declare_all_lost();
        self.outcomes()
    }

    /// Sends a message; an error gives back what the connection cannot take now.
    pub(crate) fn send_message(&mut self, message: EncodedMessage) -> Result<(), EncodedMessage> {
        self.active = true;
        self.messages.send(&mut self.connection, message)
    }

    /// Takes back messages that are not acknowledged, to be sent on another path.
    pub(crate) fn reclaim_messages(&mut self) -> Vec<EncodedMessage> {
        self.active = true;
        self.messages.reclaim(&mut self.connection)
    }

    /// Reads messages of streams that the peer has opened.
    pub(crate) fn accept_messages(&mut self, take: impl FnMut(Vec<u8>)) {
        self.active = true;
        self.messages.accept(&mut self.connection, take);
    }

    /// Reads on in a message.
    pub(crate) fn read_message(&mut self, stream: StreamId, take: impl FnMut(Vec<u8>)) {
        self.active = true;
        self.messages.read(&mut self.connection, stream, take);
    }

    /// Sends a PING on a silent path, to learn whether it is back.
    pub(crate) fn probe_if_silent(&mut self, now: Instant) {
        let silent = matches!(self.path.get().state(now), State::Degraded | State::Down);
        if silent && now.saturating_duration_since(self.probed) >= PROBING {
            self.probed = now;
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
    use hawser_wire::tunnel::is_padding;

    use super::*;
    use crate::path::simulation::{Gateway, Simulation, Wire};

    /// Has nothing to send.
    #[derive(Default)]
    struct Idle {
        received: usize,
    }

    impl Gateway for Idle {
        fn take(&mut self, bytes: Vec<u8>) {
            assert!(is_padding(&bytes));
            self.received += bytes.len();
        }

        fn give(&mut self, now: Instant, links: &mut [&mut Link]) -> bool {
            for link in links {
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
