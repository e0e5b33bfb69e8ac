//! The edges of the kernel that packets pass: TUN devices, Multipath TCP and IP-in-IP sockets, routes.
//!
//! One of the two places where `unsafe` is allowed: what lies behind it has a small safe face.

pub mod interface;
pub mod ipip;
pub mod mptcp;
pub mod namespace;
mod options;
pub mod packet;
pub mod poll;
pub mod process;
pub mod raw;
pub mod routes;
pub mod rules;
pub mod scheduling;
pub mod transparent;
pub mod tun;
pub mod udp;
pub mod udp_offload;
