//! UDP sockets, their QUIC endpoints, and the owners of connections.

use std::{net::SocketAddr, sync::Arc};

use hawser_wire::label::wide;
use quinn_proto::{ConnectionHandle, EndpointConfig, ServerConfig};

use crate::{config::Config, path::PathId};

/// Use of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Accepts the connections of a path group's paths that end at its address.
    Listener {
        /// Number of the group.
        group: u8,
    },
    /// Opens the connection of one path.
    Connector {
        /// The path.
        path: PathId,
        /// Remote address.
        remote: SocketAddr,
    },
}

/// A UDP socket. Several share one port: those of paths to different peers or of different groups,
/// and a listener whose group number equals a member path's number. Their remote addresses tell
/// them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Socket {
    /// Local address.
    pub address: SocketAddr,
    /// Its use.
    pub purpose: Purpose,
}

impl Config {
    /// Sockets needed by this configuration: one per listening address and group, one per path that
    /// this side connects. Their ports are the path label.
    #[must_use]
    pub fn sockets(&self) -> Vec<Socket> {
        let mut wanted = Vec::new();
        for peer in &self.peers {
            for group in &peer.groups {
                for (member, path) in (0_u8..).zip(&group.paths) {
                    let (port, purpose) = if self.id < peer.id {
                        let remote = wide::listener_port(peer.id, group.id);
                        let remote = SocketAddr::new(path.remote, remote);
                        let path = PathId { peer: peer.id, group: group.id, member };
                        (
                            wide::connector_port(self.id, member + 1),
                            Purpose::Connector { path, remote },
                        )
                    } else {
                        (
                            wide::listener_port(self.id, group.id),
                            Purpose::Listener { group: group.id },
                        )
                    };
                    let socket = Socket { address: SocketAddr::new(path.local, port), purpose };
                    if !wanted.contains(&socket) {
                        wanted.push(socket);
                    }
                }
            }
        }
        wanted
    }
}

/// Owner of a connection.
#[derive(Clone, Copy)]
pub(super) enum Owner {
    /// The member path that it belongs to.
    Path(PathId),
    /// None yet, or none any more: the connection is in the tunnel's `unowned`.
    Nobody,
}

/// A QUIC endpoint.
pub(super) struct Endpoint {
    pub(super) quic: quinn_proto::Endpoint,
    pub(super) socket: Socket,
    /// Maximum datagrams of a GSO batch.
    pub(super) max_batch: usize,
    /// UDP payload, bytes, up to which the MTU of its paths is searched for.
    pub(super) max_datagram: u16,
    /// By the connection's handle.
    owners: Vec<Option<Owner>>,
}

impl Endpoint {
    pub(super) fn new(
        socket: Socket,
        (max_batch, max_datagram): (usize, u16),
        config: EndpointConfig,
        server: Option<ServerConfig>,
    ) -> Self {
        let may_migrate = true;
        let server = server.map(Arc::new);
        let quic = quinn_proto::Endpoint::new(Arc::new(config), server, may_migrate, None);
        Self { quic, socket, max_batch, max_datagram, owners: Vec::new() }
    }

    pub(super) fn owner(&self, handle: ConnectionHandle) -> Option<Owner> {
        *self.owners.get(handle.0)?
    }

    /// Gives a connection to another owner.
    pub(super) fn set_owner(&mut self, handle: ConnectionHandle, owner: Owner) {
        if self.owners.len() <= handle.0 {
            self.owners.resize(handle.0 + 1, None);
        }
        if let Some(place) = self.owners.get_mut(handle.0) {
            *place = Some(owner);
        }
    }

    /// A connection has been drained (RFC 9000 section 10.2).
    pub(super) fn forget(&mut self, handle: ConnectionHandle) {
        if let Some(place) = self.owners.get_mut(handle.0) {
            *place = None;
        }
    }

    /// Whether it has no connections.
    pub(super) fn is_idle(&self) -> bool {
        self.owners.iter().all(Option::is_none)
    }
}
