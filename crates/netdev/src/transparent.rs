//! Transparent TCP sockets (TPROXY; Linux `Documentation/networking/tproxy.rst`), whose local address need
//! not be an address of this machine.

use std::{
    io::{self, IoSlice},
    net::{IpAddr, Shutdown, SocketAddr},
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};

use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};
use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};

use crate::options;

/// Connections that wait to be accepted, as for `listen(2)`.
const BACKLOG: i32 = 1024;

/// TCP keepalive: idle time before the first probe, and interval of the probes. A connection fails after
/// [`KEEPALIVE_PROBES`] of them without an answer.
const KEEPALIVE_IDLE: Duration = Duration::from_mins(1);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
const KEEPALIVE_PROBES: u32 = 3;

/// Buffers per `sendmsg(2)`.
const MAX_PARTS: usize = 64;

/// Accepts connections to any destination that nftables redirects to it.
#[derive(Debug)]
pub struct Listener(Socket);

impl Listener {
    /// Listens on a free port of a loopback address, for connections of its family.
    pub fn bind(loopback: IpAddr) -> io::Result<Self> {
        let address = SocketAddr::from((loopback, 0));
        let socket = socket(address)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(Self(socket))
    }

    /// The port to which nftables must redirect connections.
    pub fn port(&self) -> io::Result<u16> {
        Ok(address(&self.0.local_addr()?)?.port())
    }

    /// Accepts the next connection; `WouldBlock` if there is none.
    pub fn accept(&self) -> io::Result<Stream> {
        let (socket, _) = self.0.accept()?;
        socket.set_nonblocking(true)?;
        Stream(socket).with_options()
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// One connection. It is reset when it is dropped or the process dies, unless [`Stream::finish`] was called.
#[derive(Debug)]
pub struct Stream(Socket);

impl Stream {
    /// Starts to connect from `source`. The stream becomes writable when it is connected or has failed.
    pub fn connect(source: SocketAddr, destination: SocketAddr) -> io::Result<Self> {
        let socket = socket(source)?;
        // The same port may connect to several destinations.
        socket.set_reuse_address(true)?;
        socket.bind(&source.into())?;
        match socket.connect(&destination.into()) {
            Err(e) if e.raw_os_error() != Some(libc::EINPROGRESS) => Err(e),
            _ => Self(socket).with_options(),
        }
    }

    fn with_options(self) -> io::Result<Self> {
        self.0.set_tcp_nodelay(true)?;
        let keepalive = TcpKeepalive::new()
            .with_time(KEEPALIVE_IDLE)
            .with_interval(KEEPALIVE_INTERVAL)
            .with_retries(KEEPALIVE_PROBES);
        self.0.set_tcp_keepalive(&keepalive)?;
        self.0.set_linger(Some(Duration::ZERO))?;
        Ok(self)
    }

    /// Source and destination of the client's packets.
    pub fn ends(&self) -> io::Result<(SocketAddr, SocketAddr)> {
        Ok((address(&self.0.peer_addr()?)?, address(&self.0.local_addr()?)?))
    }

    /// The error with which the connection failed, if it did.
    pub fn take_error(&self) -> io::Result<()> {
        self.0.take_error()?.map_or(Ok(()), Err)
    }

    /// Receives into `space`. Returns 0 at the end of the stream; `WouldBlock` if there is no data.
    pub fn receive(&self, space: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::net::recv(&self.0, space, RecvFlags::empty())?.0)
    }

    /// Sends the start of `parts`, and returns how many bytes the socket accepted; `WouldBlock` if none.
    pub fn send<'a>(&self, parts: impl Iterator<Item = &'a [u8]>) -> io::Result<usize> {
        let parts: Vec<_> = parts.take(MAX_PARTS).map(IoSlice::new).collect();
        let mut nothing = SendAncillaryBuffer::default();
        Ok(rustix::net::sendmsg(&self.0, &parts, &mut nothing, SendFlags::NOSIGNAL)?)
    }

    /// Closes the sending direction.
    pub fn shutdown(&self) -> io::Result<()> {
        self.0.shutdown(Shutdown::Write)
    }

    /// Closes the connection gracefully: the kernel delivers what was sent.
    pub fn finish(self) -> io::Result<()> {
        self.0.set_linger(None)
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A transparent socket for the family of `address` alone.
fn socket(address: SocketAddr) -> io::Result<Socket> {
    let kind = Type::STREAM.nonblocking().cloexec();
    let socket = Socket::new(Domain::for_address(address), kind, Some(Protocol::TCP))?;
    if address.is_ipv4() {
        socket.set_ip_transparent_v4(true)?;
    } else {
        socket.set_only_v6(true)?;
        options::set(socket.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_TRANSPARENT, 1)?;
    }
    Ok(socket)
}

fn address(address: &socket2::SockAddr) -> io::Result<SocketAddr> {
    address.as_socket().ok_or(io::ErrorKind::InvalidData.into())
}
