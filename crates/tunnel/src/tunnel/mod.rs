//! The state machine: path groups to all peers, their connections, and what comes and goes.

mod connect;
mod endpoint;
mod event;
mod hello;
mod input;
mod proxy;
mod report;
mod request;
mod state;
mod timers;
mod transmit;

pub use self::{
    endpoint::{Purpose, Socket},
    event::Event,
    input::Source,
    report::{GroupView, PathView},
    request::{Connect, StreamReady},
    state::Tunnel,
    transmit::Transmit,
};
