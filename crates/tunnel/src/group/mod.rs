//! A path group: its queue, its member paths, and the distribution of packets over them.
//!
//! ```text
//! enqueue -> header compression -> backlog -> schedule -> member path -> ... -> receive -> resequencer
//!                                    retransmission --^      (Link)
//! ```

mod known_mtu;
mod members;
mod mtu;
mod outcomes;
mod receive;
mod schedule;
mod state;

pub use self::state::Incoming;
pub(crate) use self::{
    members::Member,
    receive::Dropped,
    state::{Group, Marks},
};
