//! The receive ring: `TPACKET_V2`, slots of equal size in memory shared with the kernel (Linux
//! `Documentation/networking/packet_mmap.rst`).
//!
//! `TPACKET_V3` passes blocks of packets, which costs less per packet, but delays a packet until its block is
//! full or a timer of at least 1 ms fires.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::VNET_HEADER;
use crate::options;

/// Bytes of a slot besides the frame: `tpacket2_hdr` (32), link address (20), padding (16 + 16),
/// `virtio_net_hdr` (10) and VLAN tag (4), rounded up.
const SLOT_OVERHEAD: usize = 128;
/// Status of a slot that belongs to the kernel.
const KERNEL: u32 = libc::TP_STATUS_KERNEL;

/// A received frame. Dropping it returns its slot to the kernel.
#[derive(Debug)]
pub struct Frame<'ring> {
    header: NonNull<libc::tpacket2_hdr>,
    /// The `virtio_net_hdr` and the Ethernet frame, without [`Frame::vlan`]. Truncated if the slot was too
    /// small.
    pub bytes: &'ring [u8],
    /// Length of the Ethernet frame on the wire, bytes.
    pub length: usize,
    /// The kernel's receive timestamp, `CLOCK_REALTIME`.
    pub received: Duration,
    /// VLAN tag (TPID and TCI) that the kernel removed from the frame.
    pub vlan: Option<(u16, u16)>,
}

impl Frame<'_> {
    /// Whether the slot was too small for the frame, as for a GSO packet.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        self.bytes.len() < self.length + VNET_HEADER
    }
}

impl Drop for Frame<'_> {
    fn drop(&mut self) {
        status(self.header).store(KERNEL, Ordering::Release);
    }
}

/// The shared memory, and the next slot.
#[derive(Debug)]
pub(super) struct Ring {
    memory: NonNull<u8>,
    bytes: usize,
    slot_bytes: usize,
    /// Offset of the next slot.
    next: usize,
}

// SAFETY: the mapping belongs to this value alone and is not tied to a thread.
unsafe impl Send for Ring {}

impl Ring {
    /// Sets up a ring of about `bytes` for frames of at most `frame` bytes.
    pub(super) fn new(fd: BorrowedFd<'_>, frame: usize, bytes: usize) -> io::Result<Self> {
        let slot_bytes = (frame + SLOT_OVERHEAD).next_power_of_two();
        let block_bytes = slot_bytes.max(64 * 1024);
        let blocks = bytes.div_ceil(block_bytes).max(1);
        let bytes = blocks * block_bytes;
        let narrow = |value: usize| u32::try_from(value).map_err(|_| io::ErrorKind::InvalidInput);
        let request = libc::tpacket_req {
            tp_block_size: narrow(block_bytes)?,
            tp_block_nr: narrow(blocks)?,
            tp_frame_size: narrow(slot_bytes)?,
            tp_frame_nr: narrow(bytes / slot_bytes)?,
        };
        options::set(fd, libc::SOL_PACKET, libc::PACKET_RX_RING, request)?;
        Ok(Self { memory: map(fd, bytes)?, bytes, slot_bytes, next: 0 })
    }

    /// The next frame, if there is one.
    pub(super) fn receive(&mut self) -> Option<Frame<'_>> {
        // SAFETY: `next` is below `bytes` and a multiple of the slot size, so the header lies in
        // the mapping and is aligned (slots are powers of two of at least 256 bytes).
        let header = unsafe { self.memory.add(self.next) }.cast::<libc::tpacket2_hdr>();
        if status(header).load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        self.next = (self.next + self.slot_bytes) % self.bytes;
        Some(self.frame(header))
    }

    fn frame(&self, header: NonNull<libc::tpacket2_hdr>) -> Frame<'_> {
        // SAFETY: the acquiring load saw that the kernel has finished with this slot.
        let info = unsafe { header.read() };
        let mac = usize::from(info.tp_mac)
            .clamp(size_of::<libc::tpacket2_hdr>() + VNET_HEADER, self.slot_bytes);
        let captured = (info.tp_snaplen as usize).min(self.slot_bytes - mac);
        // SAFETY: from the end of the kernel's header to the end of the slot lies memory of this
        // mapping that the kernel does not write until the frame gives the slot back.
        let bytes = unsafe {
            let start = header.cast::<u8>().add(mac - VNET_HEADER);
            slice::from_raw_parts(start.as_ptr(), VNET_HEADER + captured)
        };
        Frame {
            header,
            bytes,
            length: info.tp_len as usize,
            received: Duration::new(info.tp_sec.into(), info.tp_nsec),
            vlan: vlan(&info),
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `map` made, and no frame borrows it any more.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.bytes) };
    }
}

fn vlan(info: &libc::tpacket2_hdr) -> Option<(u16, u16)> {
    let tpid = if info.tp_status & libc::TP_STATUS_VLAN_TPID_VALID == 0 {
        u16::try_from(libc::ETH_P_8021Q).unwrap_or_default()
    } else {
        info.tp_vlan_tpid
    };
    (info.tp_status & libc::TP_STATUS_VLAN_VALID != 0).then_some((tpid, info.tp_vlan_tci))
}

/// The status word, which passes a slot between the kernel and this process.
fn status<'ring>(header: NonNull<libc::tpacket2_hdr>) -> &'ring AtomicU32 {
    // SAFETY: the status is the header's first field, aligned, in memory that lives as long as the
    // ring; both sides only touch it atomically.
    unsafe { AtomicU32::from_ptr(&raw mut (*header.as_ptr()).tp_status) }
}

fn map(fd: BorrowedFd<'_>, bytes: usize) -> io::Result<NonNull<u8>> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping of the socket's ring, of the size just set up; it replaces none.
    let memory =
        unsafe { libc::mmap(ptr::null_mut(), bytes, access, libc::MAP_SHARED, fd.as_raw_fd(), 0) };
    if memory == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(memory.cast()).ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
}
