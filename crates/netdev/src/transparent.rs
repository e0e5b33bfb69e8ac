//! TCP sockets that take the place of others (TPROXY; Linux `Documentation/networking/tproxy.rst`): their
//! local address need not be one of this machine's.

use std::{
    io::{self, IoSlice},
    net::{IpAddr, Shutdown, SocketAddr},
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};

use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};
use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};

use crate::options;

const BACKLOG: i32 = 1024;

/// An idle connection is probed after this time, so often, and given up after three probes.
const IDLE: Duration = Duration::from_mins(1);
const PROBES: Duration = Duration::from_secs(15);

/// Places that are written from at once.
const MAX_PARTS: usize = 64;

/// Takes connections to anywhere that nftables leads to it.
#[derive(Debug)]
pub struct Listener(Socket);

impl Listener {
    /// Listens on a free port of an address of the loopback, for connections of its family.
    pub fn bind(loopback: IpAddr) -> io::Result<Self> {
        let address = SocketAddr::from((loopback, 0));
        let socket = socket(address)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(Self(socket))
    }

    /// The port that connections are to be led to.
    pub fn port(&self) -> io::Result<u16> {
        Ok(address(&self.0.local_addr()?)?.port())
    }

    /// The next connection; `WouldBlock` when there is none.
    pub fn accept(&self) -> io::Result<Stream> {
        let (socket, _) = self.0.accept()?;
        socket.set_nonblocking(true)?;
        Stream(socket).tuned()
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// One connection. Dropped, also when the process dies, it is reset; unless [`Stream::finish`] was
/// called.
#[derive(Debug)]
pub struct Stream(Socket);

impl Stream {
    /// Begins to connect as `source`; the stream becomes writable when it is done or has failed.
    pub fn connect(source: SocketAddr, destination: SocketAddr) -> io::Result<Self> {
        let socket = socket(source)?;
        // The same port may connect to several destinations.
        socket.set_reuse_address(true)?;
        socket.bind(&source.into())?;
        match socket.connect(&destination.into()) {
            Err(e) if e.raw_os_error() != Some(libc::EINPROGRESS) => Err(e),
            _ => Self(socket).tuned(),
        }
    }

    fn tuned(self) -> io::Result<Self> {
        self.0.set_tcp_nodelay(true)?;
        let keepalive = TcpKeepalive::new().with_time(IDLE).with_interval(PROBES).with_retries(3);
        self.0.set_tcp_keepalive(&keepalive)?;
        self.0.set_linger(Some(Duration::ZERO))?;
        Ok(self)
    }

    /// The client and the server, as packets of the client have them.
    pub fn ends(&self) -> io::Result<(SocketAddr, SocketAddr)> {
        Ok((address(&self.0.peer_addr()?)?, address(&self.0.local_addr()?)?))
    }

    /// Why the connection failed, if it did.
    pub fn take_error(&self) -> io::Result<()> {
        self.0.take_error()?.map_or(Ok(()), Err)
    }

    /// Receives into `space`; 0 when the other end has closed, `WouldBlock` when nothing is there.
    pub fn receive(&self, space: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::net::recv(&self.0, space, RecvFlags::empty())?.0)
    }

    /// Sends the beginning of `parts`, as much as the socket takes; `WouldBlock` when it takes none.
    pub fn send<'a>(&self, parts: impl Iterator<Item = &'a [u8]>) -> io::Result<usize> {
        let parts: Vec<_> = parts.take(MAX_PARTS).map(IoSlice::new).collect();
        let mut nothing = SendAncillaryBuffer::default();
        Ok(rustix::net::sendmsg(&self.0, &parts, &mut nothing, SendFlags::NOSIGNAL)?)
    }

    /// Says that nothing more will be sent.
    pub fn shutdown(&self) -> io::Result<()> {
        self.0.shutdown(Shutdown::Write)
    }

    /// Lets the kernel bring what was sent to an end.
    pub fn finish(self) -> io::Result<()> {
        self.0.set_linger(None)
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A socket of the family of `address`, and of that alone.
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
