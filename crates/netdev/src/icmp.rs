//! ICMP messages of our own.

use std::{
    io,
    net::{Ipv4Addr, SocketAddrV4},
};

use socket2::{Domain, Protocol, Socket, Type};

/// Sends ICMP messages. The kernel writes the IP header, with the source that the route says.
#[derive(Debug)]
pub struct Sender(Socket);

impl Sender {
    /// Opens a socket that only sends.
    pub fn open() -> io::Result<Self> {
        let kind = Type::RAW.nonblocking().cloexec();
        let socket = Socket::new(Domain::IPV4, kind, Some(Protocol::ICMPV4))?;
        // A raw socket gets a copy of every message that comes: nobody reads them here.
        socket.set_recv_buffer_size(0)?;
        Ok(Self(socket))
    }

    /// Sends one message.
    pub fn send(&self, message: &[u8], to: Ipv4Addr) -> io::Result<()> {
        self.0.send_to(message, &SocketAddrV4::new(to, 0).into()).map(|_| ())
    }
}
