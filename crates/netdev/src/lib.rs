//! TUN, Multipath TCP and raw sockets.

pub mod packet;
pub mod scheduling;
