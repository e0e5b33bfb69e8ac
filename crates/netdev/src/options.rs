//! Socket options.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// Types of the kernel's ABI for which every bit pattern is valid.
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

/// Binds a socket to the interface with this index, so that it sends and receives there only.
///
/// # Errors
/// The kernel's, such as that there is no such interface.
pub fn bind_to_interface(socket: impl AsFd, interface: u32) -> io::Result<()> {
    let index = c_int::try_from(interface).map_err(io::Error::other)?;
    set(socket.as_fd(), libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX, index)
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

/// Converts the result of a system call: the kernel's error if it is negative.
pub(crate) fn check(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Size of a type, as the kernel's ABI passes it.
pub(crate) fn length<T>() -> libc::socklen_t {
    libc::socklen_t::try_from(size_of::<T>()).unwrap_or_default()
}
