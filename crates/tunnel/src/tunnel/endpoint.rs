//! A UDP socket, the QUIC endpoint on it, and whose its connections are.

use std::{net::SocketAddr, sync::Arc};

use hawser_wire::label::wide;
use quinn_proto::{ConnectionHandle, EndpointConfig, ServerConfig};

use crate::{
    config::Config,
    path::{Link, PathId},
};

/// What a socket is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Takes the connections of a path group's paths that end at its address.
    Takes {
        /// Number of the group.
        group: u8,
    },
    /// Makes the connection of one path.
    Makes {
        /// The path.
        path: PathId,
        /// Where it leads.
        remote: SocketAddr,
    },
}

/// A UDP socket. Several have one port: those of paths to other peers or of other groups, and where others connect to
/// us, if the number of a group is that of a member path. They are told apart by where they lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Socket {
    /// What it is bound to.
    pub address: SocketAddr,
    /// What it is for.
    pub purpose: Purpose,
}

impl Config {
    /// The sockets that it needs: one where others connect to us, one for each path that we connect. Their
    /// ports are the path's label.
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
                        (wide::connector_port(self.id, member + 1), Purpose::Makes { path, remote })
                    } else {
                        (wide::listener_port(self.id, group.id), Purpose::Takes { group: group.id })
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

/// Who has a connection.
pub(super) enum Owner {
    /// The member path that it has become that of.
    Path(PathId),
    /// Nobody yet, or no longer.
    Endpoint(Box<Link>),
}

/// An endpoint.
pub(super) struct Endpoint {
    pub(super) quic: quinn_proto::Endpoint,
    pub(super) socket: Socket,
    /// Datagrams that may go in one piece.
    pub(super) max_batch: usize,
    /// By the connection's handle.
    owners: Vec<Option<Owner>>,
}

impl Endpoint {
    pub(super) fn new(
        socket: Socket,
        max_batch: usize,
        config: EndpointConfig,
        server: Option<ServerConfig>,
    ) -> Self {
        let may_migrate = true;
        let server = server.map(Arc::new);
        let quic = quinn_proto::Endpoint::new(Arc::new(config), server, may_migrate, None);
        Self { quic, socket, max_batch, owners: Vec::new() }
    }

    pub(super) fn owner(&mut self, handle: ConnectionHandle) -> Option<&mut Owner> {
        self.owners.get_mut(handle.0)?.as_mut()
    }

    /// Gives a connection to another owner; returns the one before.
    pub(super) fn set_owner(&mut self, handle: ConnectionHandle, owner: Owner) -> Option<Owner> {
        if self.owners.len() <= handle.0 {
            self.owners.resize_with(handle.0 + 1, || None);
        }
        self.owners.get_mut(handle.0)?.replace(owner)
    }

    /// A connection is no more.
    pub(super) fn forget(&mut self, handle: ConnectionHandle) -> Option<Owner> {
        self.owners.get_mut(handle.0)?.take()
    }

    /// Whether it has no connection.
    pub(super) fn is_idle(&self) -> bool {
        self.owners.iter().all(Option::is_none)
    }

    /// The connections that no path has.
    pub(super) fn links(&self) -> impl Iterator<Item = &Link> {
        self.owners.iter().flatten().filter_map(|owner| match owner {
            Owner::Endpoint(link) => Some(&**link),
            Owner::Path(_) => None,
        })
    }

    /// The connections that no path has.
    pub(super) fn links_mut(&mut self) -> impl Iterator<Item = &mut Link> {
        self.owners.iter_mut().flatten().filter_map(|owner| match owner {
            Owner::Endpoint(link) => Some(&mut **link),
            Owner::Path(_) => None,
        })
    }
}
