//! Packet sockets (`packet(7)`): Ethernet frames of one interface, received through a ring in shared memory
//! and sent in batches.
//!
//! Each frame has a `virtio_net_hdr` in front ([`VNET_HEADER`] bytes), so that partial checksums are passed
//! back to the kernel.
#![allow(unsafe_code)]

mod address;
pub mod plain;
mod ring;
mod socket;

pub use ring::Frame;
pub use socket::{BATCH, Socket};

/// Length of the `virtio_net_hdr` in front of every frame, bytes.
pub const VNET_HEADER: usize = 10;
