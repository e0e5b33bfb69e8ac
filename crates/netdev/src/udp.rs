//! UDP sockets that have one interface, one address and one peer.

use std::{
    io,
    net::{SocketAddrV4, UdpSocket},
};

use socket2::{Domain, Protocol, Socket, Type};

/// Opens a socket for what passes between two addresses by one interface, whatever the routes say.
pub fn between(
    interface: &str,
    local: SocketAddrV4,
    remote: SocketAddrV4,
) -> io::Result<UdpSocket> {
    let kind = Type::DGRAM.nonblocking().cloexec();
    let socket = Socket::new(Domain::IPV4, kind, Some(Protocol::UDP))?;
    socket.bind_device(Some(interface.as_bytes()))?;
    socket.bind(&local.into())?;
    socket.connect(&remote.into())?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use std::{
        net::{Ipv4Addr, SocketAddr},
        time::Duration,
    };

    use super::*;

    #[test]
    fn it_hears_its_peer_only() {
        let [peer, stranger] =
            [(), ()].map(|()| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
        let SocketAddr::V4(remote) = peer.local_addr().unwrap() else { unreachable!() };
        let own = between("lo", SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0), remote).unwrap();
        own.set_nonblocking(false).unwrap();
        own.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let local = own.local_addr().unwrap();
        stranger.send_to(b"stranger", local).unwrap();
        peer.send_to(b"peer", local).unwrap();
        assert_eq!(own.recv(&mut [0; 16]).unwrap(), 4);
        assert!(
            between("no-such-port", SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0), remote).is_err()
        );
    }
}
