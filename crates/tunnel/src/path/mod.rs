//! One member path: its QUIC connection, its model and congestion control, and what is in flight on it.

mod batch;
mod controller;
mod in_flight;
mod link;
mod messages;
mod settings;
#[cfg(test)]
pub(crate) mod simulation;
mod sizes;

pub use self::link::PathId;
pub use self::sizes::{INNER_MTU, LARGEST};
pub(crate) use self::{
    batch::GsoBatch,
    in_flight::{Outcomes, Stored},
    link::{CLOSED, Link, NO_CONNECTION, OPENING, PeerHello, REFUSED},
    messages::EncodedMessage,
    settings::Settings,
};
