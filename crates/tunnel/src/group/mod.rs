//! A path group: what waits for it, its member paths, and how packets are spread over them.
//!
//! ```text
//! enqueue -> header compression -> backlog -> schedule -> member path -> ... -> receive -> resequencer
//!                                    retransmission --^      (Link)
//! ```

mod outcomes;
mod receive;
mod schedule;
mod state;

pub use self::state::Incoming;
pub(crate) use self::state::{Group, Member};
