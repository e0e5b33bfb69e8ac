//! Path groups to other branches as one state machine, without I/O and without a clock.
//!
//! ```text
//!  device                        Tunnel                                      network
//!  handle_packet --> placement -> Group: compress, queue, schedule --> Link (QUIC) --> poll_transmit
//!  poll_packet  <--- resequence <- Group: decompress, check       <-- Link (QUIC) <-- handle_input
//!  streams     <---> TCP proxy: messages on streams of the Links
//! ```
//!
//! The caller owns sockets, device, streams and time. It passes in what has arrived with
//! [`Tunnel::handle_input`], [`Tunnel::handle_packet`] and [`Tunnel::handle_stream`], calls
//! [`Tunnel::handle_timeout`] at [`Tunnel::poll_timeout`], and after each of these drains
//! [`Tunnel::poll_packet`], [`Tunnel::poll_transmit`], [`Tunnel::poll_connect`] and
//! [`Tunnel::poll_event`].
//!
//! A connection has one owner: its member path once it belongs to one, otherwise the tunnel.
//!
//! What all transports share is here too: [`Peers`] reconciles path groups with a configuration and
//! places flows on them.
#![forbid(unsafe_code)]

pub mod config;
pub mod counters;

mod admission;
mod arena;
mod group;
mod limits;
mod meeting;
mod path;
mod peers;
mod placement;
mod proxy;
mod reach;
mod retry;
mod table;
mod throughput;
mod tunnel;

pub use self::{
    admission::{Candidate, Verdict, judge},
    arena::Arena,
    config::Config,
    group::Incoming,
    path::{INNER_MTU, MAX_DATAGRAM, Observed, PathId, Train, max_datagram},
    peers::{Peer, Peers},
    placement::PathGroup,
    proxy::Stream,
    reach::{Denied, Permissions, Reach, Service},
    retry::Retry,
    table::PrefixTable,
    tunnel::{
        Connect, Event, GroupView, PathView, Purpose, Socket, Source, StreamReady, TrainRefused,
        Transmit, Tunnel,
    },
};
