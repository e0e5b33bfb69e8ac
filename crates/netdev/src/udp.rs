//! UDP sockets bound to one interface.

#![allow(unsafe_code)] // sendmsg with control messages has no safe form

use std::{
    io,
    mem::{size_of, zeroed},
    net::{SocketAddrV4, UdpSocket},
    os::fd::AsRawFd,
    ptr,
};

use libc::{c_int, c_uint, cmsghdr, msghdr};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

/// Space for two control messages (cmsg) with values of at most four bytes.
const CONTROL: usize = 64;

/// A buffer with the alignment of `cmsghdr`.
#[repr(C, align(8))]
struct Control([u8; CONTROL]);

/// Opens a socket for datagrams from and to an address through one interface, regardless of routes.
pub fn open(interface: &str, local: SocketAddrV4) -> io::Result<UdpSocket> {
    let kind = Type::DGRAM.nonblocking().cloexec();
    let socket = Socket::new(Domain::IPV4, kind, Some(Protocol::UDP))?;
    socket.bind_device(Some(interface.as_bytes()))?;
    socket.bind(&local.into())?;
    Ok(socket.into())
}

/// Sends datagrams to `to` in one system call. With a `size`, the kernel segments `contents` into
/// datagrams of `size` bytes, the last of which may be shorter (`UDP_SEGMENT`); otherwise `contents` is one
/// datagram. `tos` is the IPv4 field with DSCP and ECN (RFC 2474, RFC 3168).
///
/// # Errors
/// The kernel's: `EIO` if the route's device cannot segment, `WouldBlock` if the send buffer is full.
pub fn send(
    socket: &UdpSocket,
    to: SocketAddrV4,
    contents: &[u8],
    size: Option<u16>,
    tos: u8,
) -> io::Result<()> {
    let mut control = Control([0; CONTROL]);
    let to = SockAddr::from(to);
    let mut parts =
        libc::iovec { iov_base: contents.as_ptr().cast_mut().cast(), iov_len: contents.len() };
    // SAFETY: zero is a value of every field.
    let mut message: msghdr = unsafe { zeroed() };
    (message.msg_name, message.msg_namelen) = (to.as_ptr().cast_mut().cast(), to.len());
    (message.msg_iov, message.msg_iovlen) = (&raw mut parts, 1);
    (message.msg_control, message.msg_controllen) = (control.0.as_mut_ptr().cast(), CONTROL);
    // SAFETY: `message` has room for control messages behind its pointer.
    let first = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    let mut used = put(first, libc::IPPROTO_IP, libc::IP_TOS, c_int::from(tos));
    if let Some(size) = size {
        // SAFETY: `first` is a header of `message`, whose length is set.
        let next = unsafe { libc::CMSG_NXTHDR(&raw const message, first) };
        used += put(next, libc::SOL_UDP, libc::UDP_SEGMENT, size);
    }
    message.msg_controllen = used;
    // SAFETY: what `message` points to outlives the call, and the kernel only reads it.
    match unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Writes a control message with an integer of at most four bytes. Returns the space it takes, bytes.
fn put<T: Copy>(header: *mut cmsghdr, level: c_int, kind: c_int, value: T) -> usize {
    const { assert!(size_of::<T>() <= size_of::<c_int>()) };
    #[allow(clippy::cast_possible_truncation)] // four bytes at most
    let len = size_of::<T>() as c_uint;
    // SAFETY: `header` is one of the two in `Control`, which has room for both with their values.
    unsafe {
        (*header).cmsg_level = level;
        (*header).cmsg_type = kind;
        (*header).cmsg_len = libc::CMSG_LEN(len) as usize;
        ptr::write_unaligned(libc::CMSG_DATA(header).cast(), value);
        libc::CMSG_SPACE(len) as usize
    }
}

#[cfg(test)]
mod tests {
    use std::{
        net::{Ipv4Addr, SocketAddr},
        time::Duration,
    };

    use super::*;

    #[test]
    fn datagrams_are_segmented_and_marked() {
        let peer = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let SocketAddr::V4(remote) = peer.local_addr().unwrap() else { unreachable!() };
        let own = open("lo", SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
        peer.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        socket2::SockRef::from(&peer).set_recv_tos_v4(true).unwrap();
        for (contents, size, tos, lengths) in [
            (&[1; 25][..], Some(10), 0xb8, &[10, 10, 5][..]),
            (&[2; 40], None, 0x2 | 0x28, &[40]),
            (&[3; 7], Some(100), 0, &[7]),
        ] {
            send(&own, remote, contents, size, tos).unwrap();
            for len in lengths {
                assert_eq!(received(&peer), (*len, tos));
            }
        }
        peer.set_nonblocking(true).unwrap();
        assert!(peer.recv(&mut [0; 16]).is_err(), "there are no more");
        assert!(send(&own, remote, &vec![0; 70_000], None, 0).is_err(), "too long");
    }

    /// Length and second header byte of the next datagram.
    fn received(socket: &UdpSocket) -> (usize, u8) {
        let (mut room, mut control) = ([0; 2048], Control([0; CONTROL]));
        let mut parts = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
        // SAFETY: zero is a value of every field; what it points to outlives the call.
        unsafe {
            let mut message: msghdr = zeroed();
            (message.msg_iov, message.msg_iovlen) = (&raw mut parts, 1);
            (message.msg_control, message.msg_controllen) =
                (control.0.as_mut_ptr().cast(), CONTROL);
            let len = libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0);
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            assert_eq!((*header).cmsg_type, libc::IP_TOS);
            (usize::try_from(len).unwrap(), *libc::CMSG_DATA(header))
        }
    }

    #[test]
    fn it_needs_its_interface() {
        assert!(open("no-such-port", SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).is_err());
    }
}
