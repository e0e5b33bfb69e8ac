//! The `mptcp` transport: one MPTCP connection per path group of each peer (docs/design/mptcp.md).

mod accept;
mod configure;
mod connection;
mod forward;
mod group;
mod link;
mod listeners;
mod path_manager;
mod paths;
mod queue;
mod staging;
mod state;
mod token;
mod write_size;

pub(crate) use self::state::Mptcp;
