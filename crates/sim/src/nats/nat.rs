//! Network address and port translation, as RFC 4787 describes it.

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
};

/// What a mapping depends on (RFC 4787 section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// The inner address and port alone.
    EndpointIndependent,
    /// The outer ones too.
    AddressAndPortDependent,
}

/// A NAT with one public address. Filtering depends on address and port (section 5): only those pass to whom something has
/// been sent.
pub struct Nat {
    address: Ipv4Addr,
    mapping: Mapping,
    next_port: u16,
    /// Outer port by inner address and, if the mapping depends on it, outer one.
    ports: BTreeMap<(SocketAddr, Option<SocketAddr>), u16>,
    /// Inner address by outer port and outer address.
    passes: BTreeMap<(u16, SocketAddr), SocketAddr>,
}

impl Nat {
    /// A NAT without mappings.
    #[must_use]
    pub fn new(address: Ipv4Addr, mapping: Mapping) -> Self {
        let (ports, passes) = (BTreeMap::new(), BTreeMap::new());
        Self { address, mapping, next_port: 20_000, ports, passes }
    }

    /// Its public address.
    #[must_use]
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// Forgets all mappings, as after a restart; new ones have other ports.
    pub fn forget(&mut self) {
        self.ports.clear();
        self.passes.clear();
        self.next_port += 100;
    }

    /// Source of a packet outside.
    pub(super) fn outbound(&mut self, inner: SocketAddr, to: SocketAddr) -> SocketAddr {
        let depends = self.mapping == Mapping::AddressAndPortDependent;
        let next = &mut self.next_port;
        let port = *self.ports.entry((inner, depends.then_some(to))).or_insert_with(|| {
            *next += 1;
            *next
        });
        self.passes.insert((port, to), inner);
        SocketAddr::from((self.address, port))
    }

    /// Destination of a packet inside; None if it does not pass.
    pub(super) fn inbound(&self, from: SocketAddr, to: SocketAddr) -> Option<SocketAddr> {
        if to.ip() != self.address {
            return None;
        }
        self.passes.get(&(to.port(), from)).copied()
    }
}
