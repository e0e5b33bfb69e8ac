//! Sockets of a gateway, which it opens as a daemon does.

use std::{
    collections::{BTreeMap, btree_map},
    net::SocketAddr,
};

use hawser_tunnel::{Config, Purpose, Socket, Tunnel};

use crate::gateways::Memory;

/// A new socket: its number, and the maximum datagrams of a GSO batch and bytes of a datagram.
type Opened = (usize, Socket, (usize, u16));

/// Those that are open, by number.
#[derive(Default)]
pub(crate) struct Sockets {
    open: BTreeMap<usize, Socket>,
    next: usize,
}

impl Sockets {
    /// Closes those that a configuration does not want, and gives those that it wants besides.
    pub(crate) fn follow(
        &mut self,
        tunnel: &Tunnel<Memory>,
        config: &Config,
        sizes: (usize, u16),
    ) -> Vec<Opened> {
        let wanted = config.sockets();
        self.open.retain(|_, socket| wanted.contains(socket));
        let mut opened = Vec::new();
        for socket in wanted {
            if !self.open.values().any(|known| *known == socket) {
                let taken = |number| self.open.contains_key(&number);
                let number = tunnel.endpoint_for(&socket, taken).unwrap_or(self.next);
                self.next = self.next.max(number + 1);
                self.open.insert(number, socket);
                opened.push((number, socket, sizes));
            }
        }
        opened
    }

    pub(crate) fn get(&self, number: usize) -> Option<&Socket> {
        self.open.get(&number)
    }

    pub(crate) fn iter(&self) -> btree_map::Iter<'_, usize, Socket> {
        self.open.iter()
    }

    /// Where a datagram arrives: at the socket connected to its sender, or at the listening one.
    pub(crate) fn reached(&self, from: SocketAddr, to: SocketAddr) -> Option<usize> {
        let rank = |socket: &Socket| match socket.purpose {
            Purpose::Connector { remote, .. } | Purpose::Responder { remote, .. } => {
                (remote == from).then_some(0)
            }
            Purpose::Listener { .. } | Purpose::Relayed { .. } => Some(1),
        };
        let at = self.iter().filter(|(_, socket)| socket.address == to);
        at.filter_map(|(number, socket)| Some((rank(socket)?, *number))).min().map(|best| best.1)
    }
}
