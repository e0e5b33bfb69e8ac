//! What a path does to packets, as a state machine without I/O and without a clock.
//!
//! A [`Channel`] is one direction of one path. A packet passes, in this order, what it would meet on
//! a real path:
//!
//! 1. a bottleneck ([`Bottleneck`]): a rate, constant or from a trace, behind a byte-limited queue;
//! 2. loss ([`Loss`]): a lost packet has used the bottleneck all the same;
//! 3. delay and jitter ([`Jitter`]), in order unless the profile asks for reordering;
//! 4. duplication and reordering ([`Reordering`]).
//!
//! Time is an argument ([`Instant`]), randomness comes from a seed: the same packets at the same
//! times meet the same fate. Each impairment draws from a stream of its own, so switching one on
//! does not change what another does.
#![forbid(unsafe_code)]

mod channel;
mod flight;
mod jitter;
mod loss;
mod profile;
mod queue;
mod random;
mod time;
mod trace;
mod units;

pub use channel::{Cause, Channel, Counters, Departure, Tally};
pub use jitter::{Distribution, Jitter};
pub use loss::{GilbertElliott, Loss};
pub use profile::{Bottleneck, Profile, Reordering, Service};
pub use time::Instant;
pub use trace::{OPPORTUNITY_BYTES, Trace, TraceError};
pub use units::{Probability, Rate, ValueError};
