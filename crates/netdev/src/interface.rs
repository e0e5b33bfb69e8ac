//! Properties of the interfaces of the calling thread's network namespace.

#![allow(unsafe_code)] // ioctl has no safe form for these requests

use std::{
    collections::BTreeSet,
    ffi::{CStr, c_char},
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    os::fd::AsRawFd,
    ptr,
};

use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice::name_to_index, socket_with};

/// An Ethernet interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Interface index.
    pub index: u32,
    /// Hardware address.
    pub address: [u8; 6],
    /// MTU, bytes.
    pub mtu: u32,
}

/// All addresses of the network namespace, link-local ones among them.
pub fn addresses() -> io::Result<BTreeSet<IpAddr>> {
    let mut found = BTreeSet::new();
    for_each_address(|entry| found.extend(address_at(entry.ifa_addr)))?;
    Ok(found)
}

/// All destinations that the network namespace delivers to itself, besides those of the loopback: its addresses,
/// those for broadcast, and the first of each network (broadcast in older kernels; in IPv6 that of its routers,
/// RFC 4291 section 2.6.1).
pub fn local_destinations() -> io::Result<BTreeSet<IpAddr>> {
    let mut found = BTreeSet::new();
    for_each_address(|entry| {
        let address = address_at(entry.ifa_addr);
        found.extend(address);
        if entry.ifa_flags & libc::IFF_BROADCAST.cast_unsigned() != 0 {
            found.extend(address_at(entry.ifa_ifu));
        }
        found.extend(match (address, address_at(entry.ifa_netmask)) {
            (Some(IpAddr::V4(own)), Some(IpAddr::V4(mask))) => Some(IpAddr::V4(own & mask)),
            (Some(IpAddr::V6(own)), Some(IpAddr::V6(mask))) => Some(IpAddr::V6(own & mask)),
            _ => None,
        });
    })?;
    Ok(found)
}

/// The IP address at a pointer of `getifaddrs`, which may be null.
pub(crate) fn address_at(at: *const libc::sockaddr) -> Option<IpAddr> {
    if at.is_null() {
        return None;
    }
    // SAFETY: an address begins with its family, which says what it is; the kernel's copy may be less aligned than the
    // type.
    unsafe {
        match i32::from((*at).sa_family) {
            libc::AF_INET => {
                let address = at.cast::<libc::sockaddr_in>().read_unaligned();
                Some(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)).into())
            }
            libc::AF_INET6 => {
                let address = at.cast::<libc::sockaddr_in6>().read_unaligned();
                Some(Ipv6Addr::from(address.sin6_addr.s6_addr).into())
            }
            _ => None,
        }
    }
}

/// Names of all interfaces.
pub fn names() -> io::Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for_each_address(|entry| {
        // SAFETY: a string of the list, which is not freed yet.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) };
        found.insert(name.to_string_lossy().into_owned());
    })?;
    Ok(found)
}

/// Calls `visit` for the addresses of all interfaces, and once for an interface without addresses.
pub(crate) fn for_each_address(mut visit: impl FnMut(&libc::ifaddrs)) -> io::Result<()> {
    let mut list = ptr::null_mut();
    // SAFETY: getifaddrs writes the head of a list that it owns until freeifaddrs.
    unsafe {
        if libc::getifaddrs(&raw mut list) != 0 {
            return Err(io::Error::last_os_error());
        }
        let mut next = list;
        while let Some(entry) = next.as_ref() {
            visit(entry);
            next = entry.ifa_next;
        }
        libc::freeifaddrs(list);
    }
    Ok(())
}

/// Looks an interface up by name.
pub fn find(name: &str) -> io::Result<Interface> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let index = name_to_index(&socket, name)?;
    let hardware = request(&socket, libc::SIOCGIFHWADDR, name)?;
    let mtu = request(&socket, libc::SIOCGIFMTU, name)?;
    // SAFETY: the kernel filled in the field that belongs to the request.
    let (hardware, mtu) = unsafe { (hardware.ifr_ifru.ifru_hwaddr, mtu.ifr_ifru.ifru_mtu) };
    let mut address = [0; 6];
    for (octet, found) in address.iter_mut().zip(hardware.sa_data) {
        *octet = found.cast_unsigned();
    }
    Ok(Interface { index, address, mtu: mtu.cast_unsigned() })
}

fn request(socket: &impl AsRawFd, code: libc::Ioctl, name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: plain data for which zero is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let room = request.ifr_name.len() - 1; // the last byte stays zero
    for (to, from) in request.ifr_name.iter_mut().take(room).zip(name.bytes()) {
        *to = c_char::from_ne_bytes([from]);
    }
    // SAFETY: both requests read the name and write one field of the structure, which outlives them.
    match unsafe { libc::ioctl(socket.as_raw_fd(), code, &raw mut request) } {
        0 => Ok(request),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_there() {
        let loopback = find("lo").expect("every namespace has one");
        assert_eq!((loopback.index, loopback.address), (1, [0; 6]));
        assert!(loopback.mtu >= 1500);
    }

    #[test]
    fn the_loopback_is_listed() {
        assert!(names().expect("there are interfaces").contains("lo"));
    }

    #[test]
    fn what_comes_to_the_loopback_is_listed() {
        let found = local_destinations().expect("there are interfaces");
        assert!(found.contains(&IpAddr::from([127, 0, 0, 1])), "{found:?}");
        assert!(found.contains(&IpAddr::from([127, 0, 0, 0])), "{found:?}");
    }

    #[test]
    fn an_unknown_interface_is_an_error() {
        assert!(find("no-such-port").is_err());
    }
}
