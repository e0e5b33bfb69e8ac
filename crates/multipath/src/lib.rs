//! Many paths used as one, as state machines without I/O and without a clock.
//!
//! A packet goes through these parts, the first five at the sender:
//!
//! 1. [`Sequencer`] numbers it within its flow.
//! 2. [`Backlog`] holds it, and drops what would make the queue stand too long ([`CoDel`]).
//! 3. [`Scheduler`] says which packet goes next on which path, from a [`View`] of each path.
//! 4. [`Congestion`] says how much a path carries with a short queue, and [`Path`] what the path is like.
//! 5. [`Recovery`] sends again what a path has lost.
//! 6. [`Resequencer`] at the receiver brings a flow's packets back into order.
//!
//! Meanwhile [`Compressor`] and [`Decompressor`] make packets of a flow shorter that begin alike.
//!
//! A stream of bytes goes as pieces that [`Outbound`] numbers and [`Inbound`] puts together again.
//!
//! Time is an argument. Nothing allocates for a packet once buffers have grown to what is in use.
#![forbid(unsafe_code)]

mod answers;
mod backlog;
mod codel;
mod congestion;
mod filter;
mod headers;
mod lane;
mod past;
mod path;
mod rate;
mod recovery;
mod resequencer;
mod scheduler;
mod sequencer;
mod spread;

pub use answers::ACK_DELAY;
pub use backlog::{Backlog, Refused};
pub use codel::CoDel;
pub use congestion::Congestion;
pub use headers::{Compressor, Decompressor, Packed, Unknown};
pub use lane::{Inbound, Outbound, Piece, Violation};
pub use path::{Path, State, View};
pub use rate::Rate;
pub use recovery::{Kept, Recovery, UnderWay};
pub use resequencer::{Counters as ResequencerCounters, Resequencer};
pub use scheduler::{Choice, Policy, Scheduler};
pub use sequencer::{FLOWS, MAX_PATHS, Sequencer, Tag, flow};
