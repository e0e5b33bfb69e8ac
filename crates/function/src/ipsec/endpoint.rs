//! Where the remote end is at the moment: its address is configured, and its port may change (NAT).

use std::{
    net::{Ipv4Addr, SocketAddrV4},
    sync::atomic::{AtomicU16, AtomicU64, Ordering},
};

use hawser_wire::esp::UDP_PORT;

/// The remote end.
pub(super) struct Endpoint {
    address: Ipv4Addr,
    port: AtomicU16,
    moves: AtomicU64,
}

impl Endpoint {
    /// The remote end at the port of RFC 3948.
    pub(super) fn new(address: Ipv4Addr) -> Self {
        Self { address, port: UDP_PORT.into(), moves: 0.into() }
    }

    /// Where packets go.
    pub(super) fn now(&self) -> SocketAddrV4 {
        self.at(self.port())
    }

    /// The remote end at another port.
    pub(super) fn at(&self, port: u16) -> SocketAddrV4 {
        SocketAddrV4::new(self.address, port)
    }

    /// The current port.
    pub(super) fn port(&self) -> u16 {
        self.port.load(Ordering::Relaxed)
    }

    /// Notes that something authentic and fresh came from a port (RFC 7296 section 2.23): later packets go there.
    pub(super) fn follow(&self, port: u16) {
        // Nothing is written, and no cache line moves, while the port stays the same.
        if port != self.port() && self.port.swap(port, Ordering::Relaxed) != port {
            self.moves.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Number of changes of the port.
    pub(super) fn moves(&self) -> u64 {
        self.moves.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_of_the_port_is_counted() {
        let endpoint = Endpoint::new(Ipv4Addr::LOCALHOST);
        assert_eq!(endpoint.now().to_string(), "127.0.0.1:4500");
        for port in [4500, 7, 7, 8, 7] {
            endpoint.follow(port);
        }
        assert_eq!((endpoint.now().to_string().as_str(), endpoint.moves()), ("127.0.0.1:7", 3));
    }
}
