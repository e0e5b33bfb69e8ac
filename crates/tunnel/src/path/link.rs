//! The QUIC connection of one member path.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    time::{Duration, Instant},
};

use bytes::Bytes;
use hawser_multipath::{Rate, Retransmittable, State, View};
use hawser_tls::{CertificateDer, Identity, Peer, is_certificate_of};
use hawser_wire::tunnel::{Capabilities, HEADER_LEN, HELLO_MAX_LEN, Hello, OwnAddresses, PADDING};
use quinn_proto::{
    Connection, ConnectionHandle, ConnectionStats, Dir, FrameStats, ReadError, StreamId, Transmit,
    VarInt, crypto::rustls::HandshakeData,
};

use super::{
    batch::GsoBatch,
    controller::SharedPath,
    heard::Heard,
    in_flight::{Outcomes, Stored},
    messages::{EncodedMessage, MessageStreams},
    mtu::PathMtu,
    seen::Seen,
    settings::version_of,
    sizes::{MAX_BATCH, MAX_DATAGRAM, SEND_BUFFER},
    trains::Trains,
};

/// Time within which the peer must send its hello: a server's after its first answer, a client's
/// after its first packet.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum duration of a GSO batch on the path.
const GSO_TIME: Duration = Duration::from_millis(1);

/// Bytes added to a packet besides our header: IPv4, UDP, QUIC.
pub(super) const OVERHEAD: u64 = 20 + 8 + 24 + 3;

/// View of a path without a connection.
pub(crate) const NO_CONNECTION: View = View {
    state: State::Probing,
    available_window: 0,
    queued: 0,
    rate: Rate::ZERO,
    delay: Duration::ZERO,
    max_packet: 0,
    retransmission_delay: Duration::ZERO,
};

/// Value of [`Link::waiting`] while the connection's datagram buffer is empty.
const EMPTY_BUFFER: u64 = size_of::<Bytes>() as u64;

/// Received frames of ours after which an acknowledgement is due (RFC 9000 section 13.2.2).
const ACK_AFTER: u64 = 2;

/// Padding of maximum length; shorter padding is a prefix of it.
static PADDING_DATAGRAM: [u8; MAX_DATAGRAM as usize] = [PADDING; MAX_DATAGRAM as usize];

/// Error codes of `CONNECTION_CLOSE`.
pub(crate) const CLOSED: VarInt = VarInt::from_u32(0);
pub(crate) const REFUSED: VarInt = VarInt::from_u32(1);

/// Identifies a member path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId {
    /// Number of the peer.
    pub peer: u16,
    /// Number of the path group.
    pub group: u8,
    /// Index of the path in its group.
    pub member: u8,
}

/// Connection of a member path, before, while or after it serves as that.
#[allow(clippy::struct_excessive_bools)] // independent facts about a connection
pub(crate) struct Link {
    pub(crate) connection: Connection,
    /// Its socket, and its handle at the endpoint there.
    pub(crate) at: (usize, ConnectionHandle),
    pub(crate) path: SharedPath,
    /// Whether this side opened it.
    pub(crate) is_client: bool,
    /// Whether the peer had proved its address when it was accepted (RFC 9000 section 8.1.2).
    pub(crate) validated: bool,
    pub(crate) created: Instant,
    /// When a first datagram was known to have come.
    answered: Option<Instant>,
    /// Its member path; known from the start to the client, to the server from the hello.
    pub(crate) id: Option<PathId>,
    hello_stream: Option<StreamId>,
    /// Bytes of the peer's hello received so far.
    hello: Vec<u8>,
    pub(super) heard: Heard,
    pub(crate) mtu: PathMtu,
    /// Datagrams that were sent in fragments.
    pub(super) fragmented: u32,
    /// Whether its datagrams go through the rendezvous.
    pub(crate) relayed: bool,
    /// Where the peer sees this gateway, if it has told, and where it sees the peer.
    pub(crate) observed: Option<SocketAddr>,
    pub(crate) seen: Seen,
    /// Messages of the TCP proxy.
    pub(crate) messages: MessageStreams,
    /// Trains that measure the path.
    pub(crate) trains: Trains,
    /// Datagrams queued in the connection: bytes each occupies there, and what it is.
    queued: VecDeque<(u64, Queued)>,
    /// When it last sent anything.
    last_transmit: Instant,
    /// Frames received when the last acknowledgement was sent.
    acked_frames: u64,
    /// Whether it is sending, and whether messages are in flight.
    sending: Option<bool>,
    /// Whether it may have something to send.
    pub(crate) active: bool,
    /// Whether datagrams may have arrived.
    pub(crate) unread: bool,
}

/// A datagram queued in the connection.
pub(super) enum Queued {
    /// Of no further interest.
    Other,
    /// What is kept of it until it is acknowledged.
    Stored(Retransmittable<Stored>),
    /// A frame of a train.
    Probe,
    /// A message of the rendezvous: a path is not judged by it, for it comes alone.
    Message,
}

/// The peer's hello.
pub(crate) struct PeerHello {
    pub(crate) id: PathId,
    pub(crate) session: [u8; 16],
    pub(crate) capabilities: Capabilities,
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
        let is_client = id.is_some();
        Self {
            connection,
            at,
            path,
            is_client,
            validated: false,
            created: now,
            answered: (!is_client).then_some(now),
            id,
            hello_stream: None,
            hello: Vec::new(),
            heard: Heard::new(now),
            mtu: PathMtu::default(),
            fragmented: 0,
            relayed: false,
            observed: None,
            seen: Seen::default(),
            messages: MessageStreams::default(),
            trains: Trains::new(now),
            queued: VecDeque::new(),
            last_transmit: now,
            acked_frames: 0,
            sending: None,
            active: true,
            unread: false,
        }
    }

    /// Notes when the peer has answered.
    pub(crate) fn note_answer(&mut self, now: Instant) {
        if self.answered.is_none() && self.connection.stats().udp_rx.datagrams > 0 {
            self.answered = Some(now);
        }
    }

    /// Whether the peer has sent anything.
    pub(crate) fn is_answered(&self) -> bool {
        self.answered.is_some() || self.connection.stats().udp_rx.datagrams > 0
    }

    /// Whether the peer should have sent its hello by now. On a path with a long RTT it comes late
    /// after the first packet, and not late after the first answer.
    pub(crate) fn hello_is_late(&self, now: Instant) -> bool {
        self.answered.is_some_and(|at| now.saturating_duration_since(at) >= HELLO_TIMEOUT)
    }

    /// Sends our hello, on the stream that the client opens.
    pub(crate) fn send_hello(&mut self, hello: &Hello<'_>) {
        self.hello_stream = self.hello_stream.or_else(|| self.connection.streams().open(Dir::Bi));
        let Some(stream) = self.hello_stream else { return };
        let mut stream = self.connection.send_stream(stream);
        // The initial stream window is larger than a hello.
        let _ = stream.write(&hello.emit());
        let _ = stream.finish();
        self.active = true;
    }

    /// Reads the peer's hello. None: it is incomplete.
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
                Ok(Some(_)) => break Some(Err("its hello is too long".to_owned())),
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
        if !self.has_certificate_of(hello.branch) {
            return Err(format!("its certificate is not that of branch {:?}", hello.branch));
        }
        let Hello { id, group, member, session, abilities, proxy, branch } = hello;
        let id = PathId { peer: id, group, member };
        let capabilities = abilities.map_or_else(
            || match self.wire_version() {
                Some(2..) => Capabilities::FIRST.with(Capabilities::FRAGMENTS),
                _ => Capabilities::FIRST,
            },
            |abilities| abilities.capabilities,
        );
        Ok(PeerHello { id, session, capabilities, proxy, branch: branch.to_owned() })
    }

    /// Whether the peer's certificate is that of a branch.
    fn has_certificate_of(&self, name: &str) -> bool {
        self.chain().first().is_some_and(|first| is_certificate_of(first, name))
    }

    /// Whether the peer, a branch of this name, would not be accepted any more. Before the end of
    /// the handshake it has no certificate to judge.
    pub(crate) fn is_distrusted(&self, identity: &Identity, branch: &str) -> bool {
        let (chain, is_client) = (self.chain(), self.is_client);
        let peer = if is_client { Peer::Server(branch) } else { Peer::Client };
        !chain.is_empty() && !identity.accepts(&chain, peer)
    }

    /// The peer's certificate chain, its own first.
    pub(crate) fn chain(&self) -> Vec<CertificateDer<'static>> {
        let identity = self.connection.crypto_session().peer_identity();
        let chain = identity.and_then(|any| any.downcast::<Vec<CertificateDer<'static>>>().ok());
        chain.map_or(Vec::new(), |chain| *chain)
    }

    /// The wire version in use, once the handshake has agreed on it.
    pub(crate) fn wire_version(&self) -> Option<u8> {
        let data = self.connection.crypto_session().handshake_data();
        let data = data.and_then(|any| any.downcast::<HandshakeData>().ok());
        version_of(&data?.protocol?)
    }

    /// Bytes of datagrams queued in the connection.
    fn waiting(&mut self) -> u64 {
        SEND_BUFFER.saturating_sub(self.connection.datagrams().send_buffer_space()) as u64
    }

    /// View for the scheduler; `leeway` bytes may be given beyond the window.
    pub(crate) fn view(&mut self, now: Instant, leeway: u64) -> View {
        let largest = self.connection.datagrams().max_size().unwrap_or(0);
        let largest = Self::wire_size(largest.saturating_sub(HEADER_LEN) as u64);
        let waiting = self.waiting() + self.messages.waiting();
        let path = self.path.get();
        let view = path.view(now, waiting, largest);
        let max = path.window() + leeway;
        View { available_window: max.saturating_sub(path.in_flight() + waiting), ..view }
    }

    /// Size of an inner packet of `packet` bytes on the path, bytes.
    pub(crate) fn wire_size(packet: u64) -> u64 {
        packet + OVERHEAD + HEADER_LEN as u64
    }

    /// Maximum datagrams of a GSO batch: what the path carries in a millisecond, as Linux sizes TSO
    /// segments (`tcp_tso_autosize`). A shaper that passes a longer batch as a whole would turn it
    /// into one long packet, with one acknowledgement for all.
    #[allow(clippy::cast_possible_truncation)] // saturates above what any batch has
    fn gso_limit(&self, max: usize) -> usize {
        let bytes = self.path.get().congestion().rate().bytes(GSO_TIME);
        let datagram = usize::from(self.connection.current_mtu());
        (bytes as usize / datagram).clamp(1, max.min(MAX_BATCH / datagram).max(1))
    }

    /// Fills a new path with padding (docs/design/congestion-control.md, Slow start).
    pub(crate) fn send_padding(&mut self, now: Instant) {
        while self.path.get().wants_padding() {
            let size =
                self.connection.datagrams().max_size().unwrap_or(0).min(PADDING_DATAGRAM.len());
            let packet = Bytes::from_static(PADDING_DATAGRAM.get(..size).unwrap_or_default());
            let has_room = self.view(now, 0).available_window >= size as u64 + OVERHEAD;
            if size == 0 || !has_room || !self.send(packet, None) {
                return;
            }
        }
    }

    /// Makes the connection try to send again.
    pub(crate) fn wake(&mut self) {
        (self.sending, self.active) = (None, true);
    }

    /// The next batch, of at most `max` datagrams; its bytes are in `batch`.
    pub(crate) fn poll_transmit(
        &mut self,
        now: Instant,
        max: usize,
        batch: &mut GsoBatch,
    ) -> Option<Transmit> {
        let streams = self.messages.has_unacked();
        if self.sending != Some(streams) {
            self.messages.note_lost_bytes(self.path.get().totals().lost);
            self.path.gate_streams(streams);
            (self.sending, self.active) = (Some(streams), false);
        }
        let max = self.gso_limit(max);
        // What the kernel does not accept counts as lost on the path.
        let transmit = batch.poll(max, |buffer| self.transmit_next(now, max, streams, buffer));
        if transmit.is_none() {
            self.sending = None;
            if !self.path.is_blocked() {
                self.messages.all_sent();
            }
        }
        transmit
    }

    /// The next datagrams. Losses are reported by send time, so retransmittable packets are sent
    /// one at a time.
    fn transmit_next(
        &mut self,
        now: Instant,
        batch: usize,
        streams: bool,
        buffer: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let before = self.waiting();
        let max = match (self.queued.is_empty(), streams) {
            (false, _) => 1,
            (true, true) => batch.min(self.path.packets_available(MAX_DATAGRAM)),
            (true, false) => batch,
        };
        self.last_transmit = now.max(self.last_transmit + Duration::from_nanos(1));
        let prior = streams.then(|| self.connection.stats());
        if let Some(prior) = &prior {
            self.path.set_ack_due(frames_of(&prior.frame_rx) >= self.acked_frames + ACK_AFTER);
        }
        let transmit = self.connection.poll_transmit(self.last_transmit, max, buffer)?;
        let datagrams = before.saturating_sub(self.waiting());
        let (probes, messages) = self.note_sent(datagrams);
        if probes {
            self.path.probes().sent(self.last_transmit, transmit.size as u64);
            return Some(transmit);
        }
        let gone = prior.map_or(datagrams - messages, |prior| {
            self.in_flight_bytes(&prior, transmit.size as u64)
        });
        if gone > 0 {
            self.messages.note_sent(&transmit);
            self.path.get().on_sent(self.last_transmit, gone);
        }
        Some(transmit)
    }

    /// Bytes in flight of the datagram just produced. One that carries acknowledgements alone is
    /// not acknowledged, and so never in flight.
    fn in_flight_bytes(&mut self, prior: &ConnectionStats, size: u64) -> u64 {
        let after = self.connection.stats().frame_tx;
        if after.acks > prior.frame_tx.acks {
            self.acked_frames = frames_of(&prior.frame_rx);
        }
        if frames_of(&after) > frames_of(&prior.frame_tx) { size } else { 0 }
    }

    /// Datagrams that occupied `bytes` bytes in the connection were sent; returns whether a train's
    /// frame is among them, and the bytes of messages.
    fn note_sent(&mut self, bytes: u64) -> (bool, u64) {
        let (mut left, mut probes, mut messages) = (bytes, false, 0);
        while left > 0
            && let Some((taken, queued)) = self.queued.pop_front()
        {
            left = left.saturating_sub(taken);
            match queued {
                Queued::Other => {}
                Queued::Stored(packet) => self.path.in_flight().sent(self.last_transmit, packet),
                Queued::Probe => probes = true,
                Queued::Message => messages += taken,
            }
        }
        (probes, messages.min(bytes))
    }

    /// Sends a datagram, retransmittable if it is `stored`.
    pub(crate) fn send(
        &mut self,
        datagram: Bytes,
        stored: Option<Retransmittable<Stored>>,
    ) -> bool {
        self.send_as(datagram, stored.map_or(Queued::Other, Queued::Stored))
    }

    /// Sends a datagram; returns whether the connection took it.
    pub(super) fn send_as(&mut self, datagram: Bytes, kind: Queued) -> bool {
        self.active = true;
        let before = self.waiting();
        if before == EMPTY_BUFFER && !self.queued.is_empty() {
            self.drop_queued();
        }
        if self.connection.datagrams().send(datagram, false).is_err() {
            return false;
        }
        let is_other = matches!(kind, Queued::Other);
        if !is_other && self.queued.is_empty() && before > EMPTY_BUFFER {
            // Datagrams without an entry of their own leave first.
            self.queued.push_back((before - EMPTY_BUFFER, Queued::Other));
        }
        if !is_other || !self.queued.is_empty() {
            let taken = self.waiting().saturating_sub(before);
            self.queued.push_back((taken, kind));
        }
        true
    }

    /// The path's MTU has shrunk, and the connection has dropped its queued datagrams.
    fn drop_queued(&mut self) {
        for (_, queued) in self.queued.drain(..) {
            if let Queued::Stored(packet) = queued {
                self.path.in_flight().not_sent(packet);
            }
        }
    }

    /// Outcomes of retransmittable packets since the last query.
    pub(crate) fn outcomes(&mut self) -> Outcomes {
        self.path.in_flight().take_outcomes()
    }

    /// Final outcomes when the path is given up: everything in flight is lost.
    pub(crate) fn last_outcomes(&mut self) -> Outcomes {
        self.drop_queued();
        self.path.in_flight().declare_all_lost();
        self.outcomes()
    }

    /// Sends a message; returns it if the connection cannot take it now. It can again after the
    /// peer's next acknowledgement, so a refusal is no reason to look at the connection.
    pub(crate) fn send_message(&mut self, message: EncodedMessage) -> Result<(), EncodedMessage> {
        self.messages.send(&mut self.connection, message)?;
        self.active = true;
        Ok(())
    }

    /// Takes back unacknowledged messages, to send them on another path.
    pub(crate) fn reclaim_messages(&mut self) -> Vec<EncodedMessage> {
        self.active = true;
        self.messages.reclaim(&mut self.connection)
    }

    /// Reads messages from streams that the peer has opened.
    pub(crate) fn accept_messages(&mut self, take: impl FnMut(Vec<u8>)) {
        self.active = true;
        self.messages.accept(&mut self.connection, take);
    }

    /// Continues reading a message.
    pub(crate) fn read_message(&mut self, stream: StreamId, take: impl FnMut(Vec<u8>)) {
        self.active = true;
        self.messages.read(&mut self.connection, stream, take);
    }
}

/// Frames that carry packets or messages.
pub(super) fn frames_of(stats: &FrameStats) -> u64 {
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
                link.send_padding(now);
            }
            false
        }
    }

    #[test]
    fn a_new_path_is_padded_once() {
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
