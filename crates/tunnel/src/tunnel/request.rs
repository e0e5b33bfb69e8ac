//! What the proxy asks of the host, and is told by it.

use std::net::SocketAddr;

use crate::{path::PathId, proxy::FlowId};

/// The peer's wish to connect to an end here.
pub(super) struct Open {
    pub(super) path: PathId,
    pub(super) number: u32,
    pub(super) source: SocketAddr,
    pub(super) destination: SocketAddr,
    pub(super) window: u32,
}

/// A connection that is to be made here for a peer.
#[derive(Debug)]
pub struct Connect {
    pub(super) id: FlowId,
    pub(super) window: u32,
    /// The address to connect as.
    pub source: SocketAddr,
    /// Where to.
    pub destination: SocketAddr,
}

/// What has become of a stream.
#[derive(Clone, Copy, Debug, Default)]
pub struct StreamReady {
    /// It can be read, or has ended.
    pub readable: bool,
    /// It can be written.
    pub writable: bool,
    /// It has failed.
    pub failed: bool,
}
