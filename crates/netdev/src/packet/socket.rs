//! A packet socket with a receive ring.

use std::io;
use std::mem::zeroed;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::ring::{Frame, Ring};
use super::{VNET_HEADER, address};
use crate::options;

/// Frames per system call.
pub const BATCH: usize = 32;

/// A packet socket on one interface.
#[derive(Debug)]
pub struct Socket {
    /// `None`: the socket only sends.
    ring: Option<Ring>,
    frame: usize,
    fd: OwnedFd,
}

impl Socket {
    /// Opens an interface of the calling thread's network namespace.
    ///
    /// `ring` is the size of the receive ring in bytes; with `None` the socket only sends. Sent frames are not
    /// received.
    ///
    /// # Errors
    /// The kernel's: `ENODEV` for an unknown interface, `EPERM` without `CAP_NET_RAW`.
    pub fn open(interface: &str, ring: Option<usize>) -> io::Result<Self> {
        let index = address::interface_index(interface)?;
        let fd = open()?;
        for (level, name, value) in [
            (
                libc::SOL_PACKET,
                libc::PACKET_VERSION,
                libc::tpacket_versions::TPACKET_V2 as libc::c_int,
            ),
            (libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1),
            (libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1),
            // The time of reception, not the time at which the frame was put into the ring.
            (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1),
            (libc::SOL_PACKET, libc::PACKET_TIMESTAMP, SOFTWARE_TIMESTAMP),
        ] {
            options::set(fd.as_fd(), level, name, value)?;
        }
        let frame = address::mtu(fd.as_fd(), interface)? + ETHERNET_OVERHEAD;
        let ring = ring.map(|bytes| Ring::new(fd.as_fd(), frame, bytes)).transpose()?;
        let protocol = if ring.is_some() { address::every_protocol() } else { 0 };
        address::bind(fd.as_fd(), index, protocol)?;
        Ok(Self { ring, frame, fd })
    }

    /// Longest Ethernet frame of the interface with two VLAN tags, bytes.
    #[must_use]
    pub fn frame_max(&self) -> usize {
        self.frame
    }

    /// The next frame received, if there is one.
    pub fn receive(&mut self) -> Option<Frame<'_>> {
        self.ring.as_mut()?.receive()
    }

    /// Sends up to [`BATCH`] frames, each with its `virtio_net_hdr` in front. Returns how many were sent.
    ///
    /// # Errors
    /// The kernel's for the first frame, in which case none was sent.
    pub fn send<'frame>(
        &self,
        frames: impl IntoIterator<Item = &'frame [u8]>,
    ) -> io::Result<usize> {
        // SAFETY: zero is a value of every field: null pointers with lengths of zero.
        let (mut parts, mut messages): ([libc::iovec; BATCH], [libc::mmsghdr; BATCH]) =
            unsafe { zeroed() };
        let mut count = 0;
        for ((frame, part), message) in frames.into_iter().zip(&mut parts).zip(&mut messages) {
            part.iov_base = frame.as_ptr().cast_mut().cast();
            part.iov_len = frame.len();
            message.msg_hdr.msg_iov = part;
            message.msg_hdr.msg_iovlen = 1;
            count += 1;
        }
        // SAFETY: the first `count` messages point to parts, and these to frames, that outlive the
        // call; the kernel only reads them.
        let sent = unsafe {
            libc::sendmmsg(self.fd.as_raw_fd(), messages.as_mut_ptr(), count, libc::MSG_DONTWAIT)
        };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    /// Frames dropped because the ring was full, since the last call.
    ///
    /// # Errors
    /// The kernel's.
    pub fn take_ring_drops(&self) -> io::Result<u64> {
        let counted: libc::tpacket_stats =
            options::get(self.fd.as_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS)?;
        Ok(counted.tp_drops.into())
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

const _: () = assert!(VNET_HEADER == 10, "PACKET_VNET_HDR puts 10 bytes in front");

/// Bytes of an Ethernet header with two VLAN tags.
const ETHERNET_OVERHEAD: usize = 14 + 8;

/// `SOF_TIMESTAMPING_SOFTWARE` of `linux/net_tstamp.h`.
const SOFTWARE_TIMESTAMP: libc::c_int = 1 << 4;

/// Opens a socket with protocol 0, which receives nothing until it is bound.
fn open() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no memory is involved.
    let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    options::check(fd)?;
    // SAFETY: a file descriptor that was just opened, and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
