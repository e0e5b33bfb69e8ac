//! Requests of the proxy to the host, and their outcomes.

use std::net::SocketAddr;

use crate::{path::PathId, proxy::FlowId};

/// The peer's request to open a connection.
pub(super) struct Open {
    pub(super) path: PathId,
    pub(super) number: u32,
    pub(super) source: SocketAddr,
    pub(super) destination: SocketAddr,
    pub(super) window: u32,
}

/// A connection to be opened for a peer.
#[derive(Debug)]
pub struct Connect {
    pub(super) id: FlowId,
    pub(super) window: u32,
    /// Address to connect from.
    pub source: SocketAddr,
    /// Address to connect to.
    pub destination: SocketAddr,
}

/// Readiness of a stream.
#[derive(Clone, Copy, Debug, Default)]
pub struct StreamReady {
    /// It is readable, or has ended.
    pub readable: bool,
    /// It is writable.
    pub writable: bool,
    /// It has failed.
    pub failed: bool,
}
