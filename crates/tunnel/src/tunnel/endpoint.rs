//! UDP sockets, their QUIC endpoints, and the owners of connections.

use std::{net::SocketAddr, sync::Arc};

use quinn_proto::{ConnectionHandle, EndpointConfig, ServerConfig};

use crate::{
    config::{Config, Path},
    path::PathId,
};

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
    /// Accepts the connection of one path from a peer to which the rendezvous has introduced this
    /// gateway.
    Responder {
        /// The path.
        path: PathId,
        /// Remote address.
        remote: SocketAddr,
    },
    /// Has no socket: datagrams of one path go through the rendezvous.
    Relayed {
        /// The path.
        path: PathId,
    },
}

impl Purpose {
    /// The path that the socket is for, if it is for one only.
    pub(super) fn path(self) -> Option<PathId> {
        match self {
            Self::Listener { .. } => None,
            Self::Connector { path, .. }
            | Self::Responder { path, .. }
            | Self::Relayed { path } => Some(path),
        }
    }

    /// Whether a connection goes on after a change from `old`: the use is the same, or the address of the
    /// peer is another, which it moves to itself.
    pub(super) fn continues(self, old: Self) -> bool {
        match (self, old) {
            (Self::Responder { path, .. }, Self::Responder { path: old, .. }) => path == old,
            _ => self == old,
        }
    }
}

/// A UDP socket. Several share one port: those of paths to different peers or of different groups,
/// and a listener whose group number equals a member path's number. Their remote addresses tell
/// them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Socket {
    /// Local address.
    pub address: SocketAddr,
    /// Index of the interface that it is bound to; None: routing decides.
    pub interface: Option<u32>,
    /// Its use.
    pub purpose: Purpose,
}

impl Config {
    /// Sockets that this configuration needs and that can be bound, because the local addresses are
    /// known: one per listening address and group, one per path that this side connects or to which the
    /// rendezvous has introduced it. Their ports are the path label.
    #[must_use]
    pub fn sockets(&self) -> Vec<Socket> {
        let mut wanted = Vec::new();
        for (path, config) in self.paths() {
            let Some(local) = config.local else { continue };
            for purpose in self.purposes_of(path, &config) {
                let port = match purpose {
                    Purpose::Listener { group } => self.labels.listener_port(self.id, group),
                    // All of a member path are the same, and so is what a NAT makes of them
                    // (RFC 4787 section 4.1).
                    _ => self.labels.connector_port(self.id, path.member + 1),
                };
                let address = SocketAddr::new(local, port);
                let socket = Socket { address, interface: config.interface, purpose };
                if !wanted.contains(&socket) {
                    wanted.push(socket);
                }
            }
        }
        wanted
    }

    /// Uses of all sockets, also of those that have no local address at present.
    pub(super) fn purposes(&self) -> Vec<Purpose> {
        self.paths().flat_map(|(path, config)| self.purposes_of(path, &config)).collect()
    }

    /// Configuration of a path.
    pub(super) fn path(&self, id: PathId) -> Option<&Path> {
        let peer = self.peers.iter().find(|peer| peer.id == id.peer)?;
        let group = peer.groups.iter().find(|group| group.id == id.group)?;
        group.paths.get(usize::from(id.member))
    }

    /// Whether the remote address of a path comes from the rendezvous, if it is behind a NAT.
    pub(super) fn is_met(&self, id: PathId) -> bool {
        let other = self.rendezvous.is_some_and(|number| number != self.id && number != id.peer);
        other && self.path(id).is_some_and(|path| path.remote.is_none())
    }

    fn paths(&self) -> impl Iterator<Item = (PathId, Path)> {
        let groups = self.peers.iter().flat_map(|peer| peer.groups.iter().map(|g| (peer.id, g)));
        groups.flat_map(|(peer, group)| {
            let path = move |member| PathId { peer, group: group.id, member };
            (0..).map(path).zip(group.paths.iter().copied())
        })
    }

    /// None: the remote address is not known.
    fn purposes_of(&self, path: PathId, config: &Path) -> impl Iterator<Item = Purpose> + use<> {
        let PathId { peer, group, .. } = path;
        let introduced = config.introduced();
        let of_path = if self.id > peer {
            introduced.map(|remote| Purpose::Responder { path, remote })
        } else {
            let label = self.labels.listener_port(peer, group);
            let known = config.remote.map(|address| SocketAddr::new(address, label));
            known.or(introduced).map(|remote| Purpose::Connector { path, remote })
        };
        let listener = (self.id > peer).then_some(Purpose::Listener { group });
        listener.into_iter().chain(of_path)
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
    /// Whether it has its socket; not while its address is missing.
    pub(super) bound: bool,
    /// Maximum datagrams of a GSO batch.
    pub(super) max_batch: usize,
    /// UDP payload, bytes, up to which the MTU of new paths is searched for.
    pub(super) max_datagram: u16,
    /// The same when it was made: peers are told that it takes no longer ones.
    pub(super) advertised: u16,
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
        let advertised = max_datagram;
        Self { quic, socket, bound: true, max_batch, max_datagram, advertised, owners: Vec::new() }
    }

    /// Goes on with another socket for the same use. Connections keep the largest datagram that
    /// they were opened with.
    pub(super) fn move_to(&mut self, socket: Socket, (max_batch, max_datagram): (usize, u16)) {
        (self.socket, self.max_batch, self.max_datagram) = (socket, max_batch, max_datagram);
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

    /// Whether it has no socket, because its datagrams go through the rendezvous.
    pub(super) fn is_relayed(&self) -> bool {
        matches!(self.socket.purpose, Purpose::Relayed { .. })
    }

    /// Whether it has no connections.
    pub(super) fn is_idle(&self) -> bool {
        self.owners.iter().all(Option::is_none)
    }
}
