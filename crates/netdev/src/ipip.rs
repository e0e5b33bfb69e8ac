//! IP in IP through raw sockets, for kernels without the tunnel device: IPv4 in IPv4 (RFC 2003), IPv6 in IPv4 (RFC 4213),
//! and either in IPv6 (RFC 2473).
//!
//! The kernel builds the outer header of sent packets. Packets are sent and received in batches.
#![allow(unsafe_code)] // sendmmsg and recvmmsg have no safe form

use std::{
    io, mem,
    net::{IpAddr, SocketAddr},
    ops::Range,
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    ptr,
};

use hawser_wire::ipv4::{Packet, protocol};
use libc::c_int;
use socket2::{Domain, Protocol, Socket, Type};

use crate::{
    options::{self, bind_to_interface},
    routes::Family,
};

/// Packets per system call.
pub const BATCH: usize = BATCH_C as usize;
const BATCH_C: libc::c_uint = 64;

/// One end of a tunnel between two addresses. What leaves too long a packet is sent in fragments.
#[derive(Debug)]
pub struct Tunnel {
    /// For IPv4 inside.
    v4: Socket,
    /// For IPv6 inside.
    v6: Socket,
    /// Whether the outer packets are IPv6.
    ipv6: bool,
}

impl Tunnel {
    /// Opens a tunnel from `local` to `remote`, of one family, which receives from `remote` only, at
    /// an interface if one is given.
    pub fn open(
        local: IpAddr,
        remote: IpAddr,
        interface: Option<u32>,
        buffer: usize,
    ) -> io::Result<Self> {
        let open = |inner| open(local, remote, interface, buffer, inner);
        Ok(Self { v4: open(Family::V4)?, v6: open(Family::V6)?, ipv6: local.is_ipv6() })
    }

    /// The descriptor that receives inner packets of a version.
    #[must_use]
    pub fn descriptor(&self, inner: Family) -> BorrowedFd<'_> {
        self.socket(inner).as_fd()
    }

    fn socket(&self, inner: Family) -> &Socket {
        match inner {
            Family::V4 => &self.v4,
            Family::V6 => &self.v6,
        }
    }

    /// Length of the outer header, bytes.
    fn overhead(&self) -> u16 {
        if self.ipv6 { 40 } else { 20 }
    }

    /// Largest inner packet for the path MTU that the kernel knows, bytes.
    pub fn mtu(&self) -> io::Result<u16> {
        let (level, name) = if self.ipv6 {
            (libc::IPPROTO_IPV6, libc::IPV6_MTU)
        } else {
            (libc::IPPROTO_IP, libc::IP_MTU)
        };
        let mtu: c_int = options::get(self.v4.as_fd(), level, name)?;
        Ok(u16::try_from(mtu).unwrap_or(u16::MAX).saturating_sub(self.overhead()))
    }

    /// The inner packet of a received packet; `None` if it is not of this version.
    #[must_use]
    pub fn decapsulate<'a>(&self, inner: Family, received: &'a [u8]) -> Option<&'a [u8]> {
        // From IPv6 the kernel has taken the outer header (RFC 3542 section 3).
        let packet = if self.ipv6 { received } else { decapsulate(inner, received)? };
        (version(packet) == Some(inner)).then_some(packet)
    }

    /// Sends the packets of `batch` with these numbers, all of one version, and returns how many the
    /// kernel accepted. `WouldBlock` if it accepts none.
    pub fn send(
        &self,
        inner: Family,
        batch: &mut Batch,
        numbers: Range<usize>,
    ) -> io::Result<usize> {
        let socket = self.socket(inner).as_raw_fd();
        let mut parts = batch.parts();
        let mut headers = messages(&mut parts);
        let Some(headers) = headers.get_mut(numbers) else { return Ok(0) };
        let count = libc::c_uint::try_from(headers.len()).map_err(io::Error::other)?;
        // SAFETY: `headers` has `count` messages, each with one part that lies inside of the batch;
        // all of them outlive the call.
        message_count(unsafe {
            libc::sendmmsg(socket, headers.as_mut_ptr(), count, libc::MSG_DONTWAIT)
        })
    }

    /// Replaces the packets of `batch` by received ones, for [`Self::decapsulate`]. `WouldBlock` if
    /// there are none.
    pub fn receive(&self, inner: Family, batch: &mut Batch) -> io::Result<()> {
        batch.len = 0;
        batch.lens = [batch.slot; BATCH];
        let mut parts = batch.parts();
        let mut headers = messages(&mut parts);
        // SAFETY: there are BATCH messages, each with one part that lies inside of the batch, and no
        // two overlap; all of them outlive the call.
        let count = message_count(unsafe {
            let (socket, flags) = (self.socket(inner).as_raw_fd(), libc::MSG_DONTWAIT);
            libc::recvmmsg(socket, headers.as_mut_ptr(), BATCH_C, flags, ptr::null_mut())
        })?;
        for (len, header) in batch.lens.iter_mut().zip(&headers) {
            *len = header.msg_len as usize;
        }
        batch.len = count;
        Ok(())
    }
}

/// Opens the socket for inner packets of a version.
fn open(
    local: IpAddr,
    remote: IpAddr,
    interface: Option<u32>,
    buffer: usize,
    inner: Family,
) -> io::Result<Socket> {
    let kind = Type::RAW.nonblocking().cloexec();
    let domain = if local.is_ipv6() { Domain::IPV6 } else { Domain::IPV4 };
    let protocol = Protocol::from(c_int::from(protocol_of(inner)));
    let socket = Socket::new(domain, kind, Some(protocol))?;
    if let Some(interface) = interface {
        bind_to_interface(&socket, interface)?;
    }
    socket.set_recv_buffer_size(buffer)?;
    socket.set_send_buffer_size(buffer)?;
    socket.bind(&SocketAddr::new(local, 0).into())?;
    socket.connect(&SocketAddr::new(remote, 0).into())?;
    drain(&socket)?;
    Ok(socket)
}

/// Discards packets of other sources that arrived before the socket was connected.
fn drain(socket: &Socket) -> io::Result<()> {
    loop {
        match rustix::net::recv(socket, &mut [0; 1], rustix::net::RecvFlags::empty()) {
            Ok(_) => {}
            Err(rustix::io::Errno::AGAIN) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// The version of a packet.
fn version(packet: &[u8]) -> Option<Family> {
    match packet.first()? >> 4 {
        4 => Some(Family::V4),
        6 => Some(Family::V6),
        _ => None,
    }
}

fn protocol_of(inner: Family) -> u8 {
    match inner {
        Family::V4 => protocol::IPIP,
        Family::V6 => protocol::IPV6,
    }
}

fn message_count(count: c_int) -> io::Result<usize> {
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// The inner packet of an IPv4 packet.
fn decapsulate(inner: Family, outer: &[u8]) -> Option<&[u8]> {
    let outer = Packet::parse(outer).ok()?;
    (outer.protocol() == protocol_of(inner) && !outer.is_fragment()).then_some(outer.payload())
}

/// A buffer for up to [`BATCH`] packets.
#[derive(Debug)]
pub struct Batch {
    storage: Box<[u8]>,
    slot: usize,
    lens: [usize; BATCH],
    len: usize,
}

impl Batch {
    /// A buffer for packets of up to `slot` bytes.
    #[must_use]
    pub fn new(slot: usize) -> Self {
        Self { storage: vec![0; slot * BATCH].into(), slot, lens: [0; BATCH], len: 0 }
    }

    /// Number of packets.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Removes all packets.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Free space for one more packet; `None` if the batch is full.
    pub fn space(&mut self) -> Option<&mut [u8]> {
        let at = self.len * self.slot;
        self.storage.get_mut(at..at + self.slot)
    }

    /// The first `len` bytes of the free space.
    #[must_use]
    pub fn written(&self, len: usize) -> &[u8] {
        let at = self.len * self.slot;
        self.storage.get(at..at + len.min(self.slot)).unwrap_or_default()
    }

    /// Adds the first `len` bytes of the free space as a packet.
    pub fn push(&mut self, len: usize) {
        if let Some(place) = self.lens.get_mut(self.len) {
            *place = len.min(self.slot);
            self.len += 1;
        }
    }

    /// The packets.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let slots = self.storage.chunks(self.slot).zip(self.lens).take(self.len);
        slots.map(|(slot, len)| slot.get(..len).unwrap_or_default())
    }

    fn parts(&mut self) -> [libc::iovec; BATCH] {
        let mut slots = self.storage.chunks_mut(self.slot).zip(self.lens);
        std::array::from_fn(|_| match slots.next() {
            Some((slot, len)) => {
                libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: len.min(slot.len()) }
            }
            None => libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 },
        })
    }
}

fn messages(parts: &mut [libc::iovec; BATCH]) -> [libc::mmsghdr; BATCH] {
    let mut parts = parts.iter_mut();
    std::array::from_fn(|_| {
        // SAFETY: all-zero bytes are a valid mmsghdr: no name, no parts, no control data.
        let mut message: libc::mmsghdr = unsafe { mem::zeroed() };
        if let Some(part) = parts.next() {
            message.msg_hdr.msg_iov = ptr::from_mut(part);
            message.msg_hdr.msg_iovlen = 1;
        }
        message
    })
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn a_batch_is_limited() {
        let mut batch = Batch::new(100);
        for n in 0..BATCH {
            batch.space().unwrap()[0] = u8::try_from(n).unwrap();
            batch.push(n + 1);
        }
        assert!(batch.space().is_none());
        let seen: Vec<_> = batch.iter().map(|packet| (packet[0], packet.len())).collect();
        assert_eq!(seen.len(), BATCH);
        assert_eq!((seen[0], seen[63]), ((0, 1), (63, 64)));
    }

    #[test]
    fn only_ip_in_ip_is_decapsulated() {
        let repr = |protocol| {
            let any = Ipv4Addr::LOCALHOST;
            let header =
                hawser_wire::ipv4::Repr { source: any, destination: any, protocol, ttl: 9 };
            [header.emit(3).unwrap().as_slice(), b"abc"].concat()
        };
        for (inner, other) in [(Family::V4, Family::V6), (Family::V6, Family::V4)] {
            let packet = repr(protocol_of(inner));
            assert_eq!(decapsulate(inner, &packet), Some(b"abc".as_slice()));
            assert_eq!(decapsulate(other, &packet), None);
        }
        assert_eq!(decapsulate(Family::V4, &repr(protocol::UDP)), None);
        assert_eq!(decapsulate(Family::V4, b"abc"), None);
    }
}
