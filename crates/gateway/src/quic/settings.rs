//! How connections are set up.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use hawser_multipath::ACK_DELAY;
use hawser_netdev::udp_offload;
use hawser_tls::Identity;
use hawser_wire::tunnel::HEADER_LEN;
use quinn_proto::{
    AckFrequencyConfig, ClientConfig, EndpointConfig, IdleTimeout, MtuDiscoveryConfig,
    RandomConnectionIdGenerator, ServerConfig, TransportConfig, VarInt,
    crypto::rustls::{NoInitialCipherSuite, QuicClientConfig, QuicServerConfig},
};

use super::controller::Shared;
use crate::config::{Config, Congestion};

/// Application protocol (RFC 7301) of the tunnel.
const PROTOCOL: &[u8] = b"hawser/1";

/// A connection on which nothing was heard for this long is given up. Its path was given up long before.
const SILENCE: VarInt = VarInt::from_u32(10_000);

/// Round trip that a handshake counts on before one was seen: a lost first packet is sent again after
/// three of them (RFC 9002 section 6.2.2).
const FIRST_ROUND_TRIP: Duration = Duration::from_millis(100);

/// A connection sends something at least this often.
const KEEPALIVE: Duration = Duration::from_secs(1);

/// Bytes of a packet before the path has told how many it takes (RFC 9000 section 14.1).
const FIRST_PACKET: u16 = 1200;

/// UDP payload that fits where Ethernet frames do: 1500 bytes without IPv4 and UDP headers. Where the
/// path takes less, discovery finds it (RFC 8899).
pub(super) const LARGEST: u16 = 1472;

/// Packets after which the other end is to acknowledge, or else after [`ACK_DELAY`] (draft-ietf-quic-ack-frequency
/// section 4). With every second one (RFC 9000 section 13.2.2), what acknowledges the inner acknowledgements of a
/// stream takes 1 % of its path.
const ACK_AFTER: VarInt = VarInt::from_u32(9);

/// A path that seems to take only small packets is asked again after this time, and then at this interval:
/// a path that was cut looks alike, and would come back without carrying full packets.
const COOLDOWN: Duration = Duration::from_millis(250);
const AGAIN: Duration = Duration::from_secs(1);

/// What a QUIC packet and our header take of it at most: flags and connection ID, number, tag, frame.
const FRAMING: usize = 1 + ID_LEN + 4 + 16 + 9 + HEADER_LEN;

/// Largest inner packet that every path takes, as far as Ethernet frames do.
#[allow(clippy::cast_possible_truncation)] // less than 100
pub(super) const INNER_MTU: u16 = LARGEST - FRAMING as u16;

/// Bytes of connection IDs that servers hand out; clients need none, for each has a socket of its own.
const ID_LEN: usize = 4;

/// Bytes of datagrams that wait in a connection: the scheduler gives it no more than it may send.
pub(super) const SEND_BUFFER: usize = 1 << 20;

/// Messages of the TCP lane: at a time, bytes of one, and bytes of all on a path. What a gateway holds of
/// them is bounded elsewhere.
const MESSAGES: u32 = 2048;
const MESSAGE: u32 = 128 << 10;
const WINDOW: u32 = 32 << 20;

/// What connections are made with.
pub(super) struct Settings {
    identity: Identity,
    client: Arc<QuicClientConfig>,
    server: Arc<QuicServerConfig>,
    offload: bool,
    /// Whether streams of messages are taken (the TCP lane).
    lane: bool,
    congestion: Congestion,
}

impl Settings {
    /// For this identity and configuration.
    pub(super) fn new(identity: &Identity, config: &Config) -> Result<Self, NoInitialCipherSuite> {
        let transport = &config.document.transport;
        let offload = transport.udp_offload.unwrap_or_else(udp_offload::works);
        tracing::info!(offload, "UDP segmentation");
        let (client, server) = identity.for_quic(PROTOCOL);
        let (client, server) = (client.try_into()?, server.try_into()?);
        let identity = identity.clone();
        Ok(Self {
            identity,
            client: Arc::new(client),
            server: Arc::new(server),
            offload,
            lane: transport.lane.is_used(),
            congestion: transport.congestion,
        })
    }

    /// Whom they believe.
    pub(super) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The model of a path that nothing is known about.
    pub(super) fn model(&self, now: Instant) -> Shared {
        Shared::new(now, FIRST_PACKET, self.congestion)
    }

    /// Of the socket that takes connections, or of one that makes them.
    pub(super) fn endpoint(takes: bool) -> EndpointConfig {
        let mut config = EndpointConfig::default();
        let len = if takes { ID_LEN } else { 0 };
        config.cid_generator(move || Box::new(RandomConnectionIdGenerator::new(len)));
        config
    }

    /// Of a connection that is made, with the model of its path.
    pub(super) fn client(&self, path: &Shared) -> ClientConfig {
        let mut config = ClientConfig::new(self.client.clone());
        config.transport_config(Arc::new(self.transport(path)));
        config
    }

    /// Of a connection that is taken, with the model of its path.
    pub(super) fn server(&self, path: &Shared) -> ServerConfig {
        let mut config = ServerConfig::with_crypto(self.server.clone());
        config.transport_config(Arc::new(self.transport(path)));
        config
    }

    fn transport(&self, path: &Shared) -> TransportConfig {
        let mut discovery = MtuDiscoveryConfig::default();
        discovery
            .upper_bound(LARGEST)
            .minimum_change(4)
            .interval(AGAIN)
            .black_hole_cooldown(COOLDOWN);
        let mut acknowledgements = AckFrequencyConfig::default();
        acknowledgements.max_ack_delay(Some(ACK_DELAY)).ack_eliciting_threshold(ACK_AFTER);
        let mut config = TransportConfig::default();
        config
            .ack_frequency_config(Some(acknowledgements))
            .mtu_discovery_config(Some(discovery))
            .initial_rtt(FIRST_ROUND_TRIP)
            .max_idle_timeout(Some(IdleTimeout::from(SILENCE)))
            .keep_alive_interval(Some(KEEPALIVE))
            .max_concurrent_bidi_streams(VarInt::from_u32(1))
            .max_concurrent_uni_streams(VarInt::from_u32(if self.lane { MESSAGES } else { 0 }))
            .stream_receive_window(VarInt::from_u32(if self.lane { MESSAGE } else { 1024 }))
            .receive_window(VarInt::from_u32(if self.lane { WINDOW } else { 1024 }))
            .send_window(WINDOW.into())
            .datagram_receive_buffer_size(Some(4 << 20))
            .datagram_send_buffer_size(SEND_BUFFER)
            .enable_segmentation_offload(self.offload)
            .congestion_controller_factory(Arc::new(path.clone()));
        config
    }
}
