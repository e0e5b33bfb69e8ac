//! QUIC configuration.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use hawser_multipath::ACK_DELAY;
use hawser_tls::Identity;
use hawser_wire::tunnel::{Abilities, Capabilities, WIRE_VERSIONS};
use quinn_proto::{
    AckFrequencyConfig, ClientConfig, EndpointConfig, IdleTimeout, MtuDiscoveryConfig,
    RandomConnectionIdGenerator, ServerConfig, TransportConfig, VarInt,
    crypto::rustls::{NoInitialCipherSuite, QuicClientConfig, QuicServerConfig},
};

use super::{
    controller::SharedPath,
    sizes::{CID_LEN, MIN_DATAGRAM, SEND_BUFFER},
};
use crate::config::Options;

/// ALPN protocol (RFC 7301) of a wire version, without its number.
const PROTOCOL: &str = "hawser/";

/// Idle timeout, milliseconds (RFC 9000 section 10.1). The path is declared silent long before.
const IDLE_TIMEOUT: VarInt = VarInt::from_u32(10_000);

/// RTT assumed by the handshake: a lost first packet is retransmitted after three of them (RFC 9002
/// section 6.2.2).
const INITIAL_RTT: Duration = Duration::from_millis(100);

/// Ack-eliciting packets after which the peer is asked to acknowledge, if [`ACK_DELAY`] has not
/// passed before (draft-ietf-quic-ack-frequency section 4). With every second packet (RFC 9000
/// section 13.2.2) acknowledging the inner ACKs of a stream takes 1 % of its path.
const ACK_AFTER: VarInt = VarInt::from_u32(9);

/// MTU discovery after a black hole was detected: first delay, and interval. A path that was cut
/// looks like one with a small MTU, and would come back without full packets.
const BLACK_HOLE_COOLDOWN: Duration = Duration::from_millis(250);
const MTU_PROBE_INTERVAL: Duration = Duration::from_secs(5);

/// Interval of stateless resets (RFC 9000 section 10.3). After a restart each peer needs one; and at 500 a second nobody
/// collects the tokens of all connection IDs in less than three months.
const RESET_INTERVAL: Duration = Duration::from_millis(2);

/// Limits for messages of the TCP proxy: concurrent streams, bytes per stream, bytes per
/// connection. The proxy's own memory is bounded in [`crate::proxy`].
const MAX_STREAMS: u32 = 2048;
const STREAM_WINDOW: u32 = 128 << 10;
const CONNECTION_WINDOW: u32 = 32 << 20;

/// Oldest and newest wire version that are spoken.
fn versions(options: Options) -> (u8, u8) {
    let (oldest, newest) = WIRE_VERSIONS;
    (oldest, options.newest_version.clamp(oldest, newest))
}

/// The wire version that an ALPN protocol stands for.
pub(super) fn version_of(protocol: &[u8]) -> Option<u8> {
    std::str::from_utf8(protocol).ok()?.strip_prefix(PROTOCOL)?.parse().ok()
}

/// Shared configuration of all connections.
pub(crate) struct Settings {
    identity: Identity,
    client: Arc<QuicClientConfig>,
    server: Arc<QuicServerConfig>,
    options: Options,
}

impl Settings {
    /// Settings for this identity.
    pub(crate) fn new(identity: &Identity, options: Options) -> Result<Self, NoInitialCipherSuite> {
        let (oldest, newest) = versions(options);
        let all = (oldest..=newest).rev().map(|version| format!("{PROTOCOL}{version}"));
        let all: Vec<String> = all.collect();
        let all: Vec<&[u8]> = all.iter().map(String::as_bytes).collect();
        let (client, server) = identity.for_quic(&all);
        let (client, server) = (client.try_into()?, server.try_into()?);
        let identity = identity.clone();
        Ok(Self { identity, client: Arc::new(client), server: Arc::new(server), options })
    }

    /// What the own hello says, in wire versions that have it.
    pub(crate) fn abilities(&self) -> Abilities {
        let parts = [Capabilities::FRAGMENTS, Capabilities::RENDEZVOUS, Capabilities::TRAINS];
        let capabilities = parts.into_iter().fold(Capabilities::FIRST, Capabilities::with);
        Abilities { versions: versions(self.options), capabilities }
    }

    /// How packets are carried.
    pub(crate) fn options(&self) -> Options {
        self.options
    }

    /// The identity, with its authority and revocations.
    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Path model of a new path.
    pub(crate) fn model(&self, now: Instant) -> SharedPath {
        SharedPath::new(now, MIN_DATAGRAM, self.options.congestion)
    }

    /// Configuration of an endpoint that listens, or of one that only connects, for datagrams of at
    /// most `max_datagram` bytes. `name` is its own among those that listen.
    pub(crate) fn endpoint(&self, takes: bool, name: &str, max_datagram: u16) -> EndpointConfig {
        // After a restart the tokens are the same, so that peers notice it at once. Each listener
        // has its own: the reset of one must not reveal a token of another (RFC 9000 section
        // 21.11).
        let purpose = format!("stateless reset of {name}");
        let mut config =
            EndpointConfig::new(Arc::new(self.identity.derived_key(purpose.as_bytes())));
        config.min_reset_interval(RESET_INTERVAL);
        // It is refused below the minimum, which no socket has.
        let _ = config.max_udp_payload_size(max_datagram);
        let len = if takes { CID_LEN } else { 0 };
        config.cid_generator(move || Box::new(RandomConnectionIdGenerator::new(len)));
        config
    }

    /// Configuration of an outgoing connection with this path model.
    pub(crate) fn client(&self, path: &SharedPath, max_datagram: u16) -> ClientConfig {
        let mut config = ClientConfig::new(self.client.clone());
        config.transport_config(Arc::new(self.transport(path, max_datagram)));
        config
    }

    /// Configuration of an incoming connection with this path model.
    pub(crate) fn server(&self, path: &SharedPath, max_datagram: u16) -> ServerConfig {
        let mut config = ServerConfig::with_crypto(self.server.clone());
        config.transport_config(Arc::new(self.transport(path, max_datagram)));
        config
    }

    fn transport(&self, path: &SharedPath, max_datagram: u16) -> TransportConfig {
        let mut discovery = MtuDiscoveryConfig::default();
        discovery
            .upper_bound(max_datagram)
            .minimum_change(4)
            .interval(MTU_PROBE_INTERVAL)
            .black_hole_cooldown(BLACK_HOLE_COOLDOWN);
        let mut acknowledgements = AckFrequencyConfig::default();
        acknowledgements.max_ack_delay(Some(ACK_DELAY)).ack_eliciting_threshold(ACK_AFTER);
        let mut config = TransportConfig::default();
        config
            .ack_frequency_config(Some(acknowledgements))
            .mtu_discovery_config(Some(discovery))
            .initial_rtt(INITIAL_RTT)
            .max_idle_timeout(Some(IdleTimeout::from(IDLE_TIMEOUT)))
            .max_concurrent_bidi_streams(VarInt::from_u32(1))
            .max_concurrent_uni_streams(VarInt::from_u32(if self.options.proxy {
                MAX_STREAMS
            } else {
                0
            }))
            .stream_receive_window(VarInt::from_u32(if self.options.proxy {
                STREAM_WINDOW
            } else {
                1024
            }))
            .receive_window(VarInt::from_u32(if self.options.proxy {
                CONNECTION_WINDOW
            } else {
                1024
            }))
            .send_window(CONNECTION_WINDOW.into())
            .datagram_receive_buffer_size(Some(4 << 20))
            .datagram_send_buffer_size(SEND_BUFFER)
            .enable_segmentation_offload(self.options.udp_offload)
            .congestion_controller_factory(Arc::new(path.clone()));
        config
    }
}
