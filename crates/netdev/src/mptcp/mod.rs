//! Multipath TCP sockets (RFC 8684; Linux `Documentation/networking/mptcp.rst`).
#![allow(unsafe_code)] // getsockopt(SOL_MPTCP) has no safe form

mod manager;
mod message;
mod probe;
mod subflow;

use std::{
    io,
    net::{IpAddr, SocketAddr},
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    time::Duration,
};

use rustix::net::{RecvFlags, SendFlags, sockopt};
use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};

pub use self::{
    manager::{Ends, Manager},
    probe::Probe,
    subflow::Subflow,
};

const BACKLOG: c_int = 64;

/// Bytes for which a connection promises room from its first segment on (the kernel doubles what is asked
/// for, for what it keeps beside them). The kernel's own choice begins with 128 kB and grows, and while it
/// grows one subflow's sender goes by a window that another's has used: what comes behind the window is
/// dropped though its subflow has acknowledged it (`MPTcpExtNoDSSInWindow`), and all behind it waits for a
/// retransmission timer. docs/design/mptcp.md has the measurement.
const RECEIVE_BUFFER: usize = 8 << 20;

const SOL_MPTCP: c_int = 284;
const MPTCP_INFO: c_int = 1;

/// Offset of `mptcpi_token` in struct `mptcp_info`.
const MPTCP_INFO_TOKEN: usize = 12;

/// Offset of `tcpi_snd_mss` in struct `tcp_info`.
const TCP_INFO_SND_MSS: usize = 16;

/// Bytes of the longest DSS option, padded (RFC 8684 section 3.3).
const DSS_LEN: usize = 28;

use libc::c_int;

/// How a stream's socket is set up; see docs/design/mptcp.md for what chose the values in use. The send buffer is left
/// to the kernel, which knows the subflows' windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// Congestion control of all subflows.
    pub congestion: &'static str,
    /// An idle subflow is probed after this time, and is given up after three probes.
    pub keepalive: Duration,
}

/// A socket that takes connections.
#[derive(Debug)]
pub struct Listener(Socket);

impl Listener {
    /// Listens on one address.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = socket(address.ip())?;
        socket.set_reuse_address(true)?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(Self(socket))
    }

    /// The next connection, and where it comes from; `WouldBlock` when there is none.
    pub fn accept(&self) -> io::Result<(Stream, SocketAddr)> {
        let (socket, address) = self.0.accept()?;
        socket.set_nonblocking(true)?;
        let address = address.as_socket().ok_or(io::ErrorKind::InvalidData)?;
        Ok((Stream(socket), address))
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// One connection.
#[derive(Debug)]
pub struct Stream(Socket);

impl Stream {
    /// Begins to connect; the stream becomes writable when it is done or has failed.
    pub fn connect(local: IpAddr, remote: SocketAddr, tuning: &Tuning) -> io::Result<Self> {
        let socket = socket(local)?;
        let stream = Self(socket);
        stream.tune(tuning)?;
        stream.0.bind(&SocketAddr::new(local, 0).into())?;
        match stream.0.connect(&remote.into()) {
            Err(e) if e.raw_os_error() != Some(libc::EINPROGRESS) => Err(e),
            _ => Ok(stream),
        }
    }

    /// Sets the socket up. For subflows that exist already this changes them too.
    pub fn tune(&self, tuning: &Tuning) -> io::Result<()> {
        self.0.set_tcp_nodelay(true)?;
        let keepalive = TcpKeepalive::new()
            .with_time(tuning.keepalive)
            .with_interval(tuning.keepalive)
            .with_retries(3);
        // Not for subflows before Linux 6.14: the gateways' own keepalive records serve there.
        let _ = self.0.set_keepalive(true).and_then(|()| self.0.set_tcp_keepalive(&keepalive));
        self.0.set_tcp_congestion(tuning.congestion.as_bytes())
    }

    /// Limits the bytes that may wait in the kernel without having been given to a subflow.
    pub fn limit_unsent(&self, bytes: u32) {
        // Before Linux 6.9 there is no such limit for MPTCP.
        let _ = self.0.set_tcp_notsent_lowat(bytes);
    }

    /// Why the connection failed, if it did.
    pub fn take_error(&self) -> io::Result<()> {
        self.0.take_error()?.map_or(Ok(()), Err)
    }

    /// The other end.
    pub fn peer(&self) -> io::Result<SocketAddr> {
        self.0.peer_addr()?.as_socket().ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Sends a part of `bytes`, as much as the socket takes; `WouldBlock` when it takes none.
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(&self.0, bytes, SendFlags::NOSIGNAL)?)
    }

    /// Receives into `space`; 0 when the other end has closed, `WouldBlock` when nothing is there.
    pub fn receive(&self, space: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::net::recv(&self.0, space, RecvFlags::empty())?.0)
    }

    /// Payload of a full segment of the first subflow.
    #[must_use]
    pub fn segment_size(&self) -> Option<usize> {
        let mut info = [0; TCP_INFO_SND_MSS + 4];
        option(&self.0, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info).ok()?;
        let size = u32::from_ne_bytes(*info.last_chunk()?);
        // What TCP says does not take into account the option with which MPTCP maps the data.
        usize::try_from(size).ok()?.checked_sub(DSS_LEN)
    }

    /// The subflows of the connection; None where they are just changing, or where the other end speaks
    /// plain TCP.
    #[must_use]
    pub fn subflows(&self) -> Option<Vec<Subflow>> {
        subflow::all(&self.0).ok().flatten()
    }

    /// What the path manager calls the connection.
    pub fn token(&self) -> io::Result<u32> {
        let mut info = [0; MPTCP_INFO_TOKEN + 4];
        option(&self.0, SOL_MPTCP, MPTCP_INFO, &mut info)?;
        info.last_chunk().map(|token| u32::from_ne_bytes(*token)).ok_or(io::ErrorKind::Other.into())
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn socket(address: IpAddr) -> io::Result<Socket> {
    let domain = if address.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
    let kind = Type::STREAM.nonblocking().cloexec();
    let socket = Socket::new(domain, kind, Some(Protocol::MPTCP))?;
    // Who may not have it keeps the buffer that grows.
    let _ = sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER);
    Ok(socket)
}

/// Reads a socket option into `value` and gives its length.
fn option(socket: &Socket, level: c_int, name: c_int, value: &mut [u8]) -> io::Result<usize> {
    let mut len = libc::socklen_t::try_from(value.len()).map_err(io::Error::other)?;
    // SAFETY: the kernel writes at most `len` bytes to `value`, which has as many.
    let result = unsafe {
        let value = value.as_mut_ptr().cast();
        libc::getsockopt(socket.as_raw_fd(), level, name, value, &raw mut len)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(len as usize) }
}
