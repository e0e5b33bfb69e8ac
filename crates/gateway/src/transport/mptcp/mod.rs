//! The `mptcp` transport: one connection for each path group of each peer.

mod accept;
mod configure;
mod connection;
mod entrance;
mod forward;
mod group;
mod link;
mod paths;
mod queue;
mod staging;
mod state;
mod stride;
mod token;
mod watch;

pub(crate) use self::state::Mptcp;
