//! Whole IPv4 packets, header included, into the network or to ourselves.

use std::{
    io,
    net::{Ipv4Addr, SocketAddrV4},
};

use hawser_wire::ipv4::Packet;
use libc::c_int;
use socket2::{Domain, Protocol, Socket, Type};

/// Sends one packet as it is. The kernel routes it by its destination, and by its source where that is
/// an address of ours; to one of our own addresses it may come from anybody.
pub fn send(packet: &[u8]) -> io::Result<()> {
    let parsed = Packet::parse(packet).map_err(io::Error::other)?;
    let raw = Protocol::from(c_int::from(libc::IPPROTO_RAW)); // implies IP_HDRINCL
    let socket = Socket::new(Domain::IPV4, Type::RAW.nonblocking().cloexec(), Some(raw))?;
    let _ = socket.bind(&address(parsed.source())); // refused where the source is not ours
    socket.send_to(packet, &address(parsed.destination()))?;
    Ok(())
}

fn address(host: Ipv4Addr) -> socket2::SockAddr {
    SocketAddrV4::new(host, 0).into()
}
