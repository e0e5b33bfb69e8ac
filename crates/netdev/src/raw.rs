//! Sending of IP packets with their header.

use std::{
    io,
    net::{IpAddr, SocketAddr},
};

use hawser_wire::ip::Packet;
use libc::c_int;
use socket2::{Domain, Protocol, Socket, Type};

/// Sends one packet unchanged. The kernel routes it by its destination, and by its source if that is a local
/// address. A packet to a local address may have any source.
pub fn send(packet: &[u8]) -> io::Result<()> {
    let parsed = Packet::parse(packet).map_err(io::Error::other)?;
    let raw = Protocol::from(c_int::from(libc::IPPROTO_RAW)); // implies IP_HDRINCL or IPV6_HDRINCL
    let domain = match parsed {
        Packet::V4(_) => Domain::IPV4,
        Packet::V6(_) => Domain::IPV6,
    };
    let socket = Socket::new(domain, Type::RAW.nonblocking().cloexec(), Some(raw))?;
    let _ = socket.bind(&address(parsed.source())); // fails if the source is not local
    socket.send_to(packet, &address(parsed.destination()))?;
    Ok(())
}

fn address(host: IpAddr) -> socket2::SockAddr {
    SocketAddr::new(host, 0).into()
}
