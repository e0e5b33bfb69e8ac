//! Packet sockets (packet(7)): whole Ethernet frames of one interface, received through a ring that
//! the kernel shares with us, sent in batches.
//!
//! Frames travel with a `virtio_net_hdr` in front ([`VNET_HEADER`] bytes), so that a checksum the
//! kernel has yet to compute stays its business.
#![allow(unsafe_code)]

mod address;
pub mod plain;
mod ring;
mod socket;

pub use ring::Frame;
pub use socket::{BATCH, Socket};

/// Bytes of the `virtio_net_hdr` in front of every frame.
pub const VNET_HEADER: usize = 10;
