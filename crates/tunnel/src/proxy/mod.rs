//! TCP proxy (PEP, RFC 3135): connections of selected traffic end at the gateway, and the peer's
//! gateway opens them again (docs/design/tcp-proxy.md).
//!
//! The bytes of a connection travel as messages, each on the path on which it arrives first. What a
//! failed path has not delivered is sent again on others.

mod flow;
mod flows;
mod queue;
mod quotas;
#[cfg(test)]
mod simulation;
mod stream;

pub use self::stream::Stream;
pub(crate) use self::{
    flow::{Flow, FlowId, Stage},
    flows::{MAX_WINDOW, Proxy},
    queue::ProxyQueue,
    quotas::Party,
};

/// Payload of a connection that fills a packet, bytes.
pub(crate) const FULL_PACKET: usize = 1440;
