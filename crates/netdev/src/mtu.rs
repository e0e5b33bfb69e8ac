//! The MTU of an interface, by its name or by an address of it, in the network namespace of the
//! calling thread.
#![allow(unsafe_code)] // ioctl has no safe form for this request

use std::{
    ffi::{CStr, c_char},
    io,
    net::IpAddr,
    os::fd::AsRawFd,
};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::interface::{address_at, find, for_each_address};

/// Sets the MTU of an interface.
///
/// # Errors
/// The kernel's: there is no such interface, or it does not take this MTU.
pub fn set(name: &str, mtu: u16) -> io::Result<()> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: plain data for which zero is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let room = request.ifr_name.len() - 1; // the last byte stays zero
    for (to, from) in request.ifr_name.iter_mut().take(room).zip(name.bytes()) {
        *to = c_char::from_ne_bytes([from]);
    }
    request.ifr_ifru.ifru_mtu = i32::from(mtu);
    // SAFETY: the request reads the name and the MTU of the structure, which outlives it.
    match unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFMTU, &raw const request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The MTU of the interface that has an address; None: none has it.
///
/// # Errors
/// The kernel's.
pub fn of(address: IpAddr) -> io::Result<Option<u32>> {
    let mut name = None;
    for_each_address(|entry| {
        if name.is_none() && address_at(entry.ifa_addr) == Some(address) {
            // SAFETY: a string of the list, which is not freed yet.
            let found = unsafe { CStr::from_ptr(entry.ifa_name) };
            name = Some(found.to_string_lossy().into_owned());
        }
    })?;
    name.map(|name| find(&name).map(|interface| interface.mtu)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_an_error() {
        assert!(set("no-such-port", 1400).is_err());
        assert_eq!(of([192, 0, 2, 77].into()).unwrap(), None);
    }

    #[test]
    fn an_interface_is_found_by_its_address() {
        assert!(of([127, 0, 0, 1].into()).unwrap().is_some_and(|mtu| mtu >= 1500));
    }
}
