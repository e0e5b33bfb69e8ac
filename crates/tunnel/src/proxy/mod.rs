//! The TCP proxy: connections of traffic that opts in end at the gateway, and the peer's opens them again
//! (docs/design/tcp-proxy.md).
//!
//! What a connection carries goes as messages ([`hawser_wire::proxy`]), each on the path on which it
//! arrives first. What a path that has died had not delivered is sent again on others.

mod flow;
mod flows;
mod queue;
#[cfg(test)]
mod simulation;
mod stream;

pub use self::stream::Stream;
pub(crate) use self::{
    flow::{Flow, FlowId, Stage},
    flows::{MOST_WINDOW, Proxy},
    queue::ProxyQueue,
};

/// Bytes of a connection that fill a packet.
pub(crate) const FULL: usize = 1440;
