//! Multipath transport as state machines without I/O and without a clock.
//!
//! A packet passes through these parts; all but the last run at the sender:
//!
//! 1. [`Sequencer`] numbers it within its flow.
//! 2. [`Backlog`] queues it for the path group, managed by CoDel ([`CoDel`], RFC 8289).
//! 3. [`Scheduler`] picks the next packet and its path, from a [`View`] of each path.
//! 4. [`Congestion`] limits what is in flight on each path; [`Path`] tracks RTT, loss and liveness.
//! 5. [`RetransmitQueue`] holds packets that a path has lost, to be sent again.
//! 6. [`Resequencer`] at the receiver restores the order of each flow.
//!
//! [`Compressor`] and [`Decompressor`] compress headers of packets of one flow. The TCP proxy sends
//! byte streams as chunks, cut by [`SendStream`] and reassembled by [`RecvStream`].
//!
//! Time is an argument. No packet causes an allocation once the buffers have grown.
#![forbid(unsafe_code)]

mod abandoned;
mod backlog;
mod codel;
mod congestion;
mod deadline;
mod filter;
mod headers;
mod limiter;
mod liveness;
mod path;
mod rate;
mod reassembly;
mod recovery;
mod resequencer;
mod scheduler;
mod sequencer;
mod sla;
mod stream;

pub use backlog::{AdmitError, Backlog};
pub use codel::CoDel;
pub use congestion::Congestion;
pub use headers::{Compression, Compressor, DecompressError, Decompressor};
pub use limiter::Limiter;
pub use liveness::ACK_DELAY;
pub use path::{Path, State, View};
pub use rate::Rate;
pub use reassembly::Reassembly;
pub use recovery::{RetransmitQueue, Retransmittable, SentPackets};
pub use resequencer::{Counters as ResequencerCounters, Resequencer};
pub use scheduler::{Choice, Policy, Scheduler};
pub use sequencer::{FLOWS, MAX_PATHS, Sequencer, Tag, flow_bucket};
pub use sla::{Compliance, Quality, Sla};
pub use stream::{Chunk, RecvStream, SendStream, StreamError};
