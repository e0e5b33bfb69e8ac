//! Impairments of a network path, as a state machine without I/O and without a clock.
//!
//! A [`Channel`] is one direction of one path. A packet passes, in this order:
//!
//! 1. a bottleneck ([`Bottleneck`]): a rate, constant or from a trace, behind a queue limited in bytes;
//! 2. loss ([`Loss`]): lost packets have used the bottleneck, as on a real path;
//! 3. delay and jitter ([`Jitter`]), in order unless the profile allows reordering;
//! 4. duplication and reordering ([`Reordering`]).
//!
//! Time is an argument ([`Instant`]) and randomness comes from a seed: equal packets at equal times give
//! equal results. Each impairment has a random stream of its own, so enabling one does not change another.
#![forbid(unsafe_code)]

mod channel;
mod delay_line;
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
