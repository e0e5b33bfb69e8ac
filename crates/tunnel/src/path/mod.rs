//! One member path: its QUIC connection, path model, congestion control and packets in flight.

mod batch;
mod controller;
mod fragment_outcomes;
mod fragments;
mod heard;
mod in_flight;
mod introduce;
mod keepalive;
mod link;
mod measure;
mod messages;
mod mtu;
mod probes;
mod seen;
mod settings;
#[cfg(test)]
pub(crate) mod simulation;
mod sizes;
mod train;
mod trains;

pub use self::link::PathId;
pub use self::sizes::{INNER_MTU, MAX_DATAGRAM, max_datagram};
pub use self::train::{Observed, Train};
pub(crate) use self::{
    batch::GsoBatch,
    in_flight::{Outcomes, Stored},
    link::{CLOSED, Link, NO_CONNECTION, PeerHello, REFUSED},
    messages::EncodedMessage,
    mtu::PathMtu,
    settings::Settings,
    sizes::{MIN_DATAGRAM, inner_mtu},
};
