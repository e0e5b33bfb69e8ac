//! The eBPF programs, written in C under `src/bpf`, and the only code that loads them.
//!
//! | module | programs | purpose |
//! |---|---|---|
//! | [`generator`] | `load_send` | writes and paces frames, run as XDP live frames |
//! | [`meter`] | `load_receive` | counts the load frames that arrive at a port |
//! | [`reflector`] | `load_reflect` | sends load frames back |
//! | [`nsh`] | `nsh` | classifier, forwarder and function of service chains |
//! | [`srv6`] | `srv6` | service proxies for SR-unaware functions |
//! | [`switch`] | `switch_wan`, `switch_agent` | swaps addresses by exact match between agent and WAN ports |
//! | [`port`] | `load_pass`, `load_refused` | prepares a port for sending; counts frames that a device refused |
//! | [`rules`], [`flow`] | | rules on flows, compiled into tables |
//! | [`layout`] | | structures shared by C and Rust |
//! | [`interrupt`] | | interrupts a system call of another thread |

pub mod flow;
pub mod generator;
pub mod interrupt;
pub mod layout;
pub mod meter;
pub mod nsh;
pub mod port;
pub mod reflector;
pub mod rules;
pub mod srv6;
pub mod switch;

mod codes;
mod count;
mod drops;
mod lasting;
mod object;
mod rule_tables;

pub use object::Error;
