//! Kernel interfaces for packets: TUN devices, MPTCP, UDP, raw and packet sockets, routes and rules,
//! network namespaces.
//!
//! Besides `hawser-bpf`, the only crate with `unsafe` code, behind a small safe API.

pub mod addresses;
pub mod default_routes;
pub mod interface;
pub mod ipip;
pub mod mptcp;
pub mod mtu;
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

pub use self::options::bind_to_interface;
