//! Packet sockets without a ring: Ethernet frames of one interface, many per system call.

#![allow(unsafe_code)] // sendmmsg and recvmmsg have no safe form

use std::{
    io,
    mem::{size_of, zeroed},
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    time::Duration,
};

/// Frames per system call.
pub const BATCH: usize = 64;

#[allow(clippy::cast_possible_truncation)] // 17 and 3
const FAMILY: u16 = libc::AF_PACKET as u16;
#[allow(clippy::cast_possible_truncation)]
const EVERY_PROTOCOL: u16 = libc::ETH_P_ALL as u16;

/// A packet socket bound to an interface.
#[derive(Debug)]
pub struct PacketSocket {
    socket: OwnedFd,
}

impl PacketSocket {
    /// A socket that sends through an interface and receives nothing.
    pub fn sender(interface: u32) -> io::Result<Self> {
        Self::open(0, interface)
    }

    /// A socket that receives all incoming frames of an interface, and no outgoing ones.
    pub fn receiver(interface: u32, buffer_bytes: i32) -> io::Result<Self> {
        let socket = Self::open(EVERY_PROTOCOL.to_be(), interface)?;
        socket.set(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
        socket.set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, buffer_bytes)?;
        Ok(socket)
    }

    fn open(protocol: u16, interface: u32) -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: takes integers.
        let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just given us this descriptor.
        let socket = Self { socket: unsafe { OwnedFd::from_raw_fd(fd) } };
        // SAFETY: plain data for which zero is valid.
        let mut address: libc::sockaddr_ll = unsafe { zeroed() };
        address.sll_family = FAMILY;
        address.sll_protocol = protocol;
        address.sll_ifindex = interface.cast_signed();
        // SAFETY: the address is of the length given.
        checked(unsafe {
            libc::bind(fd, (&raw const address).cast(), length_of::<libc::sockaddr_ll>())
        })?;
        Ok(socket)
    }

    fn set(&self, level: i32, option: i32, value: i32) -> io::Result<()> {
        let (value, length) = ((&raw const value).cast(), length_of::<i32>());
        // SAFETY: the value is of the length given and lives through the call.
        checked(unsafe {
            libc::setsockopt(self.socket.as_raw_fd(), level, option, value, length)
        })?;
        Ok(())
    }

    /// Limits how long [`PacketSocket::receive`] waits.
    pub fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        Ok(rustix::net::sockopt::set_socket_timeout(
            self,
            rustix::net::sockopt::Timeout::Recv,
            Some(timeout),
        )?)
    }

    /// Sends up to [`BATCH`] frames, and returns how many the kernel accepted.
    pub fn send(&self, frames: &[&[u8]]) -> io::Result<usize> {
        // SAFETY: plain data for which zero is valid.
        let (mut vectors, mut messages): ([libc::iovec; BATCH], [libc::mmsghdr; BATCH]) =
            unsafe { (zeroed(), zeroed()) };
        let mut count = 0;
        for ((vector, message), frame) in vectors.iter_mut().zip(&mut messages).zip(frames) {
            vector.iov_base = frame.as_ptr().cast_mut().cast();
            vector.iov_len = frame.len();
            message.msg_hdr.msg_iov = vector;
            message.msg_hdr.msg_iovlen = 1;
            count += 1;
        }
        // SAFETY: `count` messages point at vectors, and those at frames, that live through the call;
        // sending only reads them.
        let sent =
            unsafe { libc::sendmmsg(self.socket.as_raw_fd(), messages.as_mut_ptr(), count, 0) };
        checked(sent)
    }

    /// Waits for a frame, and receives as many as there are buffers (at most [`BATCH`]). `lengths` become the
    /// frames' lengths on the wire, which may exceed their buffers.
    pub fn receive(&self, buffers: &mut [Vec<u8>], lengths: &mut Vec<usize>) -> io::Result<()> {
        lengths.clear();
        // SAFETY: plain data for which zero is valid.
        let (mut vectors, mut messages): ([libc::iovec; BATCH], [libc::mmsghdr; BATCH]) =
            unsafe { (zeroed(), zeroed()) };
        let mut count = 0;
        for ((vector, message), buffer) in vectors.iter_mut().zip(&mut messages).zip(buffers) {
            vector.iov_base = buffer.as_mut_ptr().cast();
            vector.iov_len = buffer.len();
            message.msg_hdr.msg_iov = vector;
            message.msg_hdr.msg_iovlen = 1;
            count += 1;
        }
        let flags = libc::MSG_WAITFORONE | libc::MSG_TRUNC;
        // SAFETY: `count` messages point at vectors, and those at buffers of the lengths given, that
        // live through the call.
        let received = unsafe {
            let socket = self.socket.as_raw_fd();
            libc::recvmmsg(socket, messages.as_mut_ptr(), count, flags, std::ptr::null_mut())
        };
        let received = checked(received)?;
        lengths.extend(messages.iter().take(received).map(|message| message.msg_len as usize));
        Ok(())
    }

    /// Frames dropped because the socket's buffer was full, since the last call.
    pub fn dropped(&self) -> io::Result<u32> {
        // SAFETY: plain data for which zero is valid.
        let mut statistics: libc::tpacket_stats = unsafe { zeroed() };
        let mut length = length_of::<libc::tpacket_stats>();
        // SAFETY: the structure is of the length given.
        checked(unsafe {
            let (level, option) = (libc::SOL_PACKET, libc::PACKET_STATISTICS);
            let value = (&raw mut statistics).cast();
            libc::getsockopt(self.socket.as_raw_fd(), level, option, value, &raw mut length)
        })?;
        Ok(statistics.tp_drops)
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn checked(result: i32) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

#[allow(clippy::cast_possible_truncation)] // a few bytes
fn length_of<T>() -> libc::socklen_t {
    size_of::<T>() as libc::socklen_t
}
