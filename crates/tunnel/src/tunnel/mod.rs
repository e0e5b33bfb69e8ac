//! The state machine: path groups to all peers, their connections, and what comes and goes.

mod connect;
mod endpoint;
mod event;
mod hello;
mod input;
mod proxy;
mod report;
mod state;
mod timers;
mod transmit;

pub use self::{
    endpoint::{Purpose, Socket},
    event::Event,
    input::Source,
    proxy::{Connect, StreamReady},
    report::{GroupView, PathView},
    state::Tunnel,
    transmit::Transmit,
};
