//! Socket options, and addresses of packet sockets.
#![allow(unsafe_code)]

use std::ffi::{CString, c_int};
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd};

/// The kernel's plain structs, for which every bit pattern is a value.
///
/// # Safety
/// Only for `repr(C)` types of integers.
pub(crate) unsafe trait Plain: Copy {}

// SAFETY: an integer.
unsafe impl Plain for c_int {}
// SAFETY: integers only.
unsafe impl Plain for libc::tpacket_req {}
// SAFETY: integers only.
unsafe impl Plain for libc::tpacket_stats {}

/// Sets a socket option.
pub(crate) fn set<T: Plain>(
    fd: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
    value: T,
) -> io::Result<()> {
    // SAFETY: `value` is a plain struct of the length given and outlives the call.
    check(unsafe {
        libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const value).cast(), length::<T>())
    })
}

/// Reads a socket option.
pub(crate) fn get<T: Plain>(fd: BorrowedFd<'_>, level: c_int, name: c_int) -> io::Result<T> {
    // SAFETY: zero is a value of every plain struct.
    let mut value: T = unsafe { zeroed() };
    let mut size = length::<T>();
    // SAFETY: the kernel writes at most `size` bytes, which is what `value` has.
    check(unsafe {
        libc::getsockopt(fd.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut size)
    })?;
    Ok(value)
}

/// Index of an interface of this network namespace.
pub(crate) fn interface_index(name: &str) -> io::Result<u32> {
    let name = CString::new(name).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // SAFETY: `name` ends in a zero byte and outlives the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

/// Receives frames of this protocol (in network byte order; 0 is none) from, and sends to, one
/// interface only.
pub(crate) fn bind(fd: BorrowedFd<'_>, interface: u32, protocol: u16) -> io::Result<()> {
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

/// Largest packet of an interface, without the Ethernet header.
pub(crate) fn mtu(fd: BorrowedFd<'_>, name: &str) -> io::Result<usize> {
    // SAFETY: zero is a value of every field.
    let mut request: libc::ifreq = unsafe { zeroed() };
    let room = request.ifr_name.len() - 1; // a zero byte ends it
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
pub(crate) fn every_protocol() -> u16 {
    u16::try_from(libc::ETH_P_ALL).unwrap_or_default().to_be()
}

/// The kernel's error for a result below zero.
pub(crate) fn check(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn length<T>() -> libc::socklen_t {
    libc::socklen_t::try_from(size_of::<T>()).unwrap_or_default()
}
