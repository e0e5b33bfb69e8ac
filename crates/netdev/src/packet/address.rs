//! Interfaces and addresses of packet sockets.

use std::{
    ffi::{CString, c_int},
    io,
    mem::zeroed,
    os::fd::{AsRawFd, BorrowedFd},
};

use crate::options::{check, length};

/// Index of an interface of this network namespace.
pub(super) fn interface_index(name: &str) -> io::Result<u32> {
    let name = CString::new(name).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // SAFETY: `name` ends in a zero byte and outlives the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

/// Binds a socket to one interface, to receive frames of this protocol (network byte order; 0: none).
pub(super) fn bind(fd: BorrowedFd<'_>, interface: u32, protocol: u16) -> io::Result<()> {
    // SAFETY: zero is a value of every field.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::c_ushort::try_from(libc::AF_PACKET).unwrap_or_default();
    address.sll_protocol = protocol;
    address.sll_ifindex = c_int::try_from(interface).unwrap_or_default();
    // SAFETY: `address` is a `sockaddr_ll` of the length given.
    check(unsafe {
        libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length::<libc::sockaddr_ll>())
    })
}

/// MTU of an interface, bytes.
pub(super) fn mtu(fd: BorrowedFd<'_>, name: &str) -> io::Result<usize> {
    // SAFETY: zero is a value of every field.
    let mut request: libc::ifreq = unsafe { zeroed() };
    let room = request.ifr_name.len() - 1; // terminated by a zero byte
    for (to, from) in request.ifr_name.iter_mut().take(room).zip(name.bytes()) {
        *to = from.cast_signed();
    }
    // SAFETY: the kernel reads the name and writes the MTU, both within `request`.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCGIFMTU, &raw mut request) })?;
    // SAFETY: the call has set this member of the union.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu };
    usize::try_from(mtu).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// `ETH_P_ALL` in network byte order.
pub(super) fn every_protocol() -> u16 {
    u16::try_from(libc::ETH_P_ALL).unwrap_or_default().to_be()
}
