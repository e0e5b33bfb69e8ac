//! Virtual clock and network that drive the pure crates in tests: flows through two gateways and
//! the paths between them, packet by packet and reproducible.
//!
//! ```text
//! flow -> sequencer -> backlog -> scheduler -> path 0 (rate, queue, delay, loss) -> resequencer -> flow
//!                                          \-> path 1 ...                        /
//! ```
#![forbid(unsafe_code)]

mod environment;
mod events;
mod flow;
pub mod gateways;
mod member;
pub mod nats;
mod sockets;
mod world;

pub use environment::{ENVIRONMENTS, Environment, Link, RATIOS};
pub use flow::Kind;
pub use world::{Outcome, Setup, World, payload_share};
