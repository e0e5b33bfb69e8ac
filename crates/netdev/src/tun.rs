//! TUN devices with segmentation offload: a read returns a packet of up to 64 KiB, which the peer's kernel
//! segments (`IFF_VNET_HDR`, Linux `Documentation/networking/tuntap.rst`).
#![allow(unsafe_code)] // ioctl has no safe form for these requests

use std::{
    fs::{File, OpenOptions},
    io::{self, IoSlice, IoSliceMut},
    mem,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd},
        unix::fs::OpenOptionsExt,
    },
};

use hawser_wire::{
    checksum,
    record::{Protocol, Segmentation},
};
use libc::{c_int, c_uint};

const TUN_F_CSUM: c_uint = 0x01;
const TUN_F_TSO4: c_uint = 0x02;
const TUN_F_TSO6: c_uint = 0x04;
const TUN_F_TSO_ECN: c_uint = 0x08;
const TUN_F_USO4: c_uint = 0x20;
const TUN_F_USO6: c_uint = 0x40;

const TSO: c_uint = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;
const USO: c_uint = TUN_F_USO4 | TUN_F_USO6;

/// Longest name of an interface, bytes.
pub const MAX_NAME_LEN: usize = libc::IFNAMSIZ - 1;

/// Longest packet of a device, bytes.
pub const MAX_PACKET_LEN: usize = u16::MAX as usize;

/// Segmentation offload of a device: which GSO packets are exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Offload {
    /// No GSO packets and no partial checksums.
    None,
    /// TCP (TSO).
    Tcp,
    /// TCP and UDP (TSO and USO; Linux 6.2 and newer).
    TcpUdp,
}

/// A TUN device. It is removed when this is dropped.
#[derive(Debug)]
pub struct Tun {
    file: File,
    offload: Offload,
}

/// A packet that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// Length, bytes.
    pub len: usize,
    /// Segmentation of a GSO packet; `None` for a packet with complete checksums.
    pub segmentation: Option<Segmentation>,
}

impl Tun {
    /// Creates a device with the most offload, up to `wanted`, that the kernel supports.
    pub fn open(name: &str, wanted: Offload) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open("/dev/net/tun")?;
        attach(&file, name, wanted > Offload::None)?;
        let offload = match wanted {
            Offload::None => Offload::None,
            Offload::TcpUdp if set_offload(&file, TSO | USO) => Offload::TcpUdp,
            _ if set_offload(&file, TSO) => Offload::Tcp,
            // The virtio_net_hdr remains, and marks every packet as complete.
            _ => Offload::Tcp,
        };
        Ok(Self { file, offload })
    }

    /// The offload in use.
    #[must_use]
    pub fn offload(&self) -> Offload {
        self.offload
    }

    /// Reads one packet. A partial checksum is completed, except in GSO packets. `WouldBlock` if there is no
    /// packet.
    pub fn read(&self, packet: &mut [u8]) -> io::Result<Read> {
        if self.offload == Offload::None {
            return Ok(Read { len: rustix::io::read(&self.file, packet)?, segmentation: None });
        }
        let mut header = [0; VnetHeader::LEN];
        let mut parts = [IoSliceMut::new(&mut header), IoSliceMut::new(packet)];
        let len = rustix::io::readv(&self.file, &mut parts)?.saturating_sub(VnetHeader::LEN);
        let header = VnetHeader::from_bytes(header);
        if let Some(segmentation) = header.segmentation() {
            return Ok(Read { len, segmentation: Some(segmentation) });
        }
        if let (Some((start, offset)), Some(packet)) = (header.checksum(), packet.get_mut(..len)) {
            // Only a kernel bug puts the field outside the packet, which is then forwarded unchanged.
            let _ = checksum::complete(packet, start, offset);
        }
        Ok(Read { len, segmentation: None })
    }

    /// Writes one packet, which the kernel receives from the device.
    pub fn write(&self, packet: &[u8], segmentation: Option<Segmentation>) -> io::Result<()> {
        if self.offload == Offload::None {
            rustix::io::write(&self.file, packet)?;
            return Ok(());
        }
        let header =
            segmentation.map_or_else(VnetHeader::default, |cut| VnetHeader::new(cut, packet));
        let header = header.to_bytes();
        rustix::io::writev(&self.file, &[IoSlice::new(&header), IoSlice::new(packet)])?;
        Ok(())
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn attach(file: &File, name: &str, vnet_header: bool) -> io::Result<()> {
    // SAFETY: all-zero bytes are a valid ifreq.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    if name.is_empty() || name.len() > MAX_NAME_LEN {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "interface name too long"));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    let vnet = if vnet_header { libc::IFF_VNET_HDR } else { 0 };
    // Exclusive: fail if a device of this name exists, instead of attaching to it.
    let flags = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_TUN_EXCL | vnet;
    #[allow(clippy::cast_possible_truncation)] // the flags are the low 16 bits
    {
        request.ifr_ifru.ifru_flags = flags as libc::c_short;
    }
    // SAFETY: TUNSETIFF reads and writes one ifreq, which outlives the call.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) })
}

fn set_offload(file: &File, flags: c_uint) -> bool {
    // SAFETY: TUNSETOFFLOAD takes its flags by value.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD, libc::c_ulong::from(flags)) })
        .is_ok()
}

fn check(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// `struct virtio_net_hdr` (virtio 1.2 section 5.1.6), in host byte order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct VnetHeader {
    flags: u8,
    gso_type: u8,
    header_len: u16,
    gso_size: u16,
    checksum_start: u16,
    checksum_offset: u16,
}

impl VnetHeader {
    const LEN: usize = 10;
    const NEEDS_CHECKSUM: u8 = 1;
    const GSO_TCPV4: u8 = 1;
    const GSO_TCPV6: u8 = 4;
    const GSO_UDP_L4: u8 = 5;
    const GSO_ECN: u8 = 0x80;

    fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        let [flags, gso_type, h0, h1, g0, g1, s0, s1, o0, o1] = bytes;
        Self {
            flags,
            gso_type,
            header_len: u16::from_ne_bytes([h0, h1]),
            gso_size: u16::from_ne_bytes([g0, g1]),
            checksum_start: u16::from_ne_bytes([s0, s1]),
            checksum_offset: u16::from_ne_bytes([o0, o1]),
        }
    }

    fn to_bytes(self) -> [u8; Self::LEN] {
        let [h0, h1] = self.header_len.to_ne_bytes();
        let [g0, g1] = self.gso_size.to_ne_bytes();
        let [s0, s1] = self.checksum_start.to_ne_bytes();
        let [o0, o1] = self.checksum_offset.to_ne_bytes();
        [self.flags, self.gso_type, h0, h1, g0, g1, s0, s1, o0, o1]
    }

    /// The header to write before `packet`.
    fn new(cut: Segmentation, packet: &[u8]) -> Self {
        let ecn = if cut.cwr() { Self::GSO_ECN } else { 0 };
        let gso_type = match cut.protocol() {
            Protocol::TcpV4 => Self::GSO_TCPV4,
            Protocol::TcpV6 => Self::GSO_TCPV6,
            Protocol::Udp => Self::GSO_UDP_L4,
        };
        Self {
            flags: Self::NEEDS_CHECKSUM,
            gso_type: gso_type | ecn,
            header_len: u16::try_from(cut.header_len(packet)).unwrap_or(u16::MAX),
            gso_size: cut.size(),
            checksum_start: cut.checksum_start(),
            checksum_offset: cut.checksum_offset(),
        }
    }

    fn segmentation(&self) -> Option<Segmentation> {
        let protocol = match self.gso_type & !Self::GSO_ECN {
            Self::GSO_TCPV4 => Protocol::TcpV4,
            Self::GSO_TCPV6 => Protocol::TcpV6,
            Self::GSO_UDP_L4 => Protocol::Udp,
            _ => return None,
        };
        let cwr = self.gso_type & Self::GSO_ECN != 0;
        let (start, offset) = (self.checksum_start, self.checksum_offset);
        Some(Segmentation::new(protocol, self.gso_size, start, offset, cwr))
    }

    /// Start and offset of a partial checksum.
    fn checksum(&self) -> Option<(usize, usize)> {
        (self.flags & Self::NEEDS_CHECKSUM != 0)
            .then_some((self.checksum_start.into(), self.checksum_offset.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_converted_and_back() {
        let cut = Segmentation::new(Protocol::TcpV6, 1440, 40, 16, true);
        let mut packet = [0; 100];
        packet[52] = 0x80;
        let header = VnetHeader::new(cut, &packet);
        assert_eq!(header.header_len, 72);
        let again = VnetHeader::from_bytes(header.to_bytes());
        assert_eq!(again, header);
        assert_eq!(again.segmentation(), Some(cut));
        assert_eq!(again.checksum(), Some((40, 16)));
    }

    #[test]
    fn a_zero_header_has_neither_segmentation_nor_checksum() {
        let header = VnetHeader::from_bytes([0; VnetHeader::LEN]);
        assert_eq!((header.segmentation(), header.checksum()), (None, None));
    }
}
