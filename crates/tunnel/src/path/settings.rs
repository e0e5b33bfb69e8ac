//! How connections are set up.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use hawser_multipath::ACK_DELAY;
use hawser_tls::Identity;
use quinn_proto::{
    AckFrequencyConfig, ClientConfig, EndpointConfig, IdleTimeout, MtuDiscoveryConfig,
    RandomConnectionIdGenerator, ServerConfig, TransportConfig, VarInt,
    crypto::rustls::{NoInitialCipherSuite, QuicClientConfig, QuicServerConfig},
};

use super::{
    controller::SharedPath,
    sizes::{FIRST_PACKET, ID_LEN, LARGEST, SEND_BUFFER},
};
use crate::config::Options;

/// Application protocol (RFC 7301) of the tunnel.
const PROTOCOL: &[u8] = b"hawser/1";

/// A connection on which nothing was heard for this long is given up. Its path was given up long before.
const SILENCE: VarInt = VarInt::from_u32(10_000);

/// Round trip that a handshake counts on before one was seen: a lost first packet is sent again after
/// three of them (RFC 9002 section 6.2.2).
const FIRST_ROUND_TRIP: Duration = Duration::from_millis(100);

/// A connection sends something at least this often.
const KEEPALIVE: Duration = Duration::from_secs(1);

/// Packets after which the other end is to acknowledge, or else after [`ACK_DELAY`] (draft-ietf-quic-ack-frequency
/// section 4). With every second one (RFC 9000 section 13.2.2), what acknowledges the inner acknowledgements of a
/// stream takes 1 % of its path.
const ACK_AFTER: VarInt = VarInt::from_u32(9);

/// A path that seems to take only small packets is asked again after this time, and then at this interval:
/// a path that was cut looks alike, and would come back without carrying full packets.
const COOLDOWN: Duration = Duration::from_millis(250);
const AGAIN: Duration = Duration::from_secs(1);

/// Messages of the TCP proxy: at a time, bytes of one, and bytes of all on a path. What a gateway holds of
/// them is bounded elsewhere.
const MESSAGES: u32 = 2048;
const MESSAGE: u32 = 128 << 10;
const WINDOW: u32 = 32 << 20;

/// What connections are made with.
pub(crate) struct Settings {
    identity: Identity,
    client: Arc<QuicClientConfig>,
    server: Arc<QuicServerConfig>,
    options: Options,
}

impl Settings {
    /// For this identity.
    pub(crate) fn new(identity: &Identity, options: Options) -> Result<Self, NoInitialCipherSuite> {
        let (client, server) = identity.for_quic(PROTOCOL);
        let (client, server) = (client.try_into()?, server.try_into()?);
        let identity = identity.clone();
        Ok(Self { identity, client: Arc::new(client), server: Arc::new(server), options })
    }

    /// Whom they believe.
    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The model of a path that nothing is known about.
    pub(crate) fn model(&self, now: Instant) -> SharedPath {
        SharedPath::new(now, FIRST_PACKET, self.options.congestion)
    }

    /// Of the socket that takes connections, or of one that makes them.
    pub(crate) fn endpoint(takes: bool) -> EndpointConfig {
        let mut config = EndpointConfig::default();
        let len = if takes { ID_LEN } else { 0 };
        config.cid_generator(move || Box::new(RandomConnectionIdGenerator::new(len)));
        config
    }

    /// Of a connection that is made, with the model of its path.
    pub(crate) fn client(&self, path: &SharedPath) -> ClientConfig {
        let mut config = ClientConfig::new(self.client.clone());
        config.transport_config(Arc::new(self.transport(path)));
        config
    }

    /// Of a connection that is taken, with the model of its path.
    pub(crate) fn server(&self, path: &SharedPath) -> ServerConfig {
        let mut config = ServerConfig::with_crypto(self.server.clone());
        config.transport_config(Arc::new(self.transport(path)));
        config
    }

    fn transport(&self, path: &SharedPath) -> TransportConfig {
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
            .max_concurrent_uni_streams(VarInt::from_u32(if self.options.proxy {
                MESSAGES
            } else {
                0
            }))
            .stream_receive_window(VarInt::from_u32(if self.options.proxy {
                MESSAGE
            } else {
                1024
            }))
            .receive_window(VarInt::from_u32(if self.options.proxy { WINDOW } else { 1024 }))
            .send_window(WINDOW.into())
            .datagram_receive_buffer_size(Some(4 << 20))
            .datagram_send_buffer_size(SEND_BUFFER)
            .enable_segmentation_offload(self.options.udp_offload)
            .congestion_controller_factory(Arc::new(path.clone()));
        config
    }
}
