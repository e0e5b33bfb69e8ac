//! Gateways beside strangers, and after a restart.

#![allow(clippy::unwrap_used)]

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

use hawser_sim::gateways::{Authority, Gateways, OPTIONS, Wire, segment};
use quinn_proto::{
    ClientConfig, ConnectionHandle, Endpoint, EndpointConfig, crypto::rustls::QuicClientConfig,
};

const SECOND: Duration = Duration::from_secs(1);

/// First datagrams of connections that nobody continues.
struct Stranger {
    endpoint: Endpoint,
    config: ClientConfig,
}

impl Stranger {
    fn new() -> Self {
        let (tls, _) = Authority::new().identity("stranger").for_quic(&[b"hawser/1"]);
        let tls = Arc::new(QuicClientConfig::try_from(tls).unwrap());
        let endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, true, None);
        Self { endpoint, config: ClientConfig::new(tls) }
    }

    fn initial(&mut self, now: Instant) -> Vec<u8> {
        let to = SocketAddr::from(([192, 0, 2, 1], 1));
        let config = self.config.clone();
        let (_, mut connection): (ConnectionHandle, _) =
            self.endpoint.connect(now, config, to, "b2").unwrap();
        let mut bytes = Vec::new();
        let transmit = connection.poll_transmit(now, 1, &mut bytes).unwrap();
        bytes.truncate(transmit.size);
        bytes
    }
}

#[test]
fn peers_connect_within_a_second_while_initials_are_forged() {
    let wires = [Wire::new(10.0, 20.0); 2];
    let mut gateways = Gateways::new(Instant::now(), &wires, 1, OPTIONS).unwrap();
    for path in 0..2 {
        gateways.cut(path, true);
    }
    let mut stranger = Stranger::new();
    let mut flood = |gateways: &mut Gateways, milliseconds: u32| {
        for number in 0..milliseconds {
            let from = Ipv4Addr::from_bits(0x0a00_0000 + number);
            let initial = stranger.initial(gateways.now());
            gateways.inject_from(1, 0, SocketAddr::from((from, 4443)), &initial);
            gateways.run(Duration::from_millis(1));
        }
    };
    flood(&mut gateways, 3000);
    assert!(gateways.unauthenticated(1).retries > 1000);
    for path in 0..2 {
        gateways.cut(path, false);
    }
    gateways.restart(0);
    flood(&mut gateways, 1000);
    assert_eq!((gateways.path_changes(0), gateways.path_changes(1)), ((2, 0), (2, 0)));
}

#[test]
fn a_peer_notices_a_restart_at_once() {
    let mut gateways =
        Gateways::new(Instant::now(), &[Wire::new(20.0, 10.0); 2], 7, OPTIONS).unwrap();
    gateways.run(2 * SECOND);
    for end in [1, 0, 1] {
        gateways.restart(end);
        let mut arrived = 0;
        for number in 0..100 {
            for from in [0, 1] {
                gateways.send(from, &segment(from, 3, number, 500));
            }
            gateways.run(Duration::from_millis(5));
            arrived = gateways.take_received(0).len().min(gateways.take_received(1).len());
        }
        assert!(arrived > 0, "gateway {end} has restarted");
    }
}
