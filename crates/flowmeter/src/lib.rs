//! Flows and their features, for intrusion detection. No I/O, no clock.
//!
//! Packets come in, records of flows come out:
//!
//! ```text
//! Packet::parse --> FlowTable::observe --> Record { reason: Early | Window | Closed | Idle | Evicted | Ended }
//! ```
//!
//! The features are those of flowtbag (D. Arndt, 2011), by its names and units, which the data sets of the
//! literature use ([`features::NAMES`]). Flows are bidirectional; *forward* is the direction of the first
//! packet. Times are microseconds of any clock that the caller chooses; nothing is ever waited for.
//!
//! Memory is bounded by [`Settings::capacity`], whatever is observed: a full table evicts, and the evicted
//! flow's record comes out like any other.

#![forbid(unsafe_code)]

pub mod features;

mod distribution;
mod order;
mod packet;
mod record;
mod statistics;
mod table;
mod tcp;
mod tuple;

pub use packet::Packet;
pub use record::{Reason, Record};
pub use table::{Counters, FlowTable, Settings};
pub use tuple::Tuple;
