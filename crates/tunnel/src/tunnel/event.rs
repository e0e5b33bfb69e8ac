//! Events for the log.

use quinn_proto::{ConnectError, ConnectionError};

/// Something that happened.
#[derive(Debug)]
pub enum Event {
    /// A member path is up.
    PathUp {
        /// Name of the peer.
        peer: String,
        /// Number of the path group.
        group: u8,
        /// Place of the path.
        member: u8,
    },
    /// A member path has lost its connection.
    PathDown {
        /// Number of the peer.
        peer: u16,
        /// Number of the path group.
        group: u8,
        /// Place of the path.
        member: u8,
        /// Why.
        reason: ConnectionError,
    },
    /// A connection has ended.
    Ended(ConnectionError),
    /// A connection was refused because of its peer's identity.
    Refused(String),
    /// A connection cannot be opened.
    CannotConnect {
        /// Name of the peer.
        peer: String,
        /// Why.
        error: ConnectError,
    },
}
