//! The state machine: path groups to all peers and their connections.

mod connect;
mod endpoint;
mod error_limit;
mod event;
mod hello;
mod input;
mod introductions;
mod measure;
mod oversize;
mod proxy;
mod relay;
mod rendezvous;
mod report;
mod request;
mod state;
mod timers;
mod trains;
mod transmit;

pub use self::{
    endpoint::{Purpose, Socket},
    event::Event,
    input::Source,
    report::{GroupView, PathView},
    request::{Connect, StreamReady},
    state::Tunnel,
    trains::TrainRefused,
    transmit::Transmit,
};
