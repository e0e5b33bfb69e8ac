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

use crate::options::bind_to_interface;

pub use self::{
    manager::{Ends, Manager},
    probe::Probe,
    subflow::Subflow,
};

/// Connections that wait to be accepted, as for `listen(2)`.
const BACKLOG: c_int = 64;

/// Receive buffer of a connection from its first segment on, bytes; the kernel doubles it for its overhead.
/// With auto-tuning the buffer starts at 128 kB. While it grows, a subflow's sender may use window that
/// another subflow has used already: the receiver drops data beyond the window although the subflow has
/// acknowledged it (`MPTcpExtNoDSSInWindow`), and the connection stalls until a retransmission timeout.
/// docs/design/mptcp.md has the measurement.
const RECEIVE_BUFFER: usize = 8 << 20;

const SOL_MPTCP: c_int = 284;
const MPTCP_INFO: c_int = 1;

/// Offset of `mptcpi_token` in `struct mptcp_info`.
const MPTCP_INFO_TOKEN: usize = 12;

/// Offset of `tcpi_snd_mss` in `struct tcp_info`.
const TCP_INFO_SND_MSS: usize = 16;

/// Length of the longest DSS option with padding, bytes (RFC 8684 section 3.3).
const DSS_LEN: usize = 28;

use libc::c_int;

/// Socket options of a stream; docs/design/mptcp.md has the values and what chose them. The kernel sizes the
/// send buffer by the subflows' windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// Congestion control of all subflows.
    pub congestion: &'static str,
    /// Idle time before a TCP keepalive probe, and interval of the probes. A subflow fails after three without
    /// an answer.
    pub keepalive: Duration,
}

/// Local end of a connection to be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Local {
    /// Its address; the kernel chooses the port.
    pub address: IpAddr,
    /// Index of the interface that it is bound to; None: routing decides.
    pub interface: Option<u32>,
}

/// A listening socket.
#[derive(Debug)]
pub struct Listener(Socket);

impl Listener {
    /// Listens on one address, for what arrives at an interface if one is given.
    pub fn bind(address: SocketAddr, interface: Option<u32>) -> io::Result<Self> {
        let socket = socket(address.ip(), interface)?;
        socket.set_reuse_address(true)?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(Self(socket))
    }

    /// Accepts the next connection, with its remote address; `WouldBlock` if there is none.
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
    /// Starts to connect. The stream becomes writable when it is connected or has failed.
    pub fn connect(local: Local, remote: SocketAddr, tuning: &Tuning) -> io::Result<Self> {
        let socket = socket(local.address, local.interface)?;
        let stream = Self(socket);
        stream.tune(tuning)?;
        stream.0.bind(&SocketAddr::new(local.address, 0).into())?;
        match stream.0.connect(&remote.into()) {
            Err(e) if e.raw_os_error() != Some(libc::EINPROGRESS) => Err(e),
            _ => Ok(stream),
        }
    }

    /// Sets the socket options, of existing subflows too.
    pub fn tune(&self, tuning: &Tuning) -> io::Result<()> {
        self.0.set_tcp_nodelay(true)?;
        let keepalive = TcpKeepalive::new()
            .with_time(tuning.keepalive)
            .with_interval(tuning.keepalive)
            .with_retries(3);
        // Before Linux 6.14 subflows have no keepalive; the gateways' keepalive records replace it.
        let _ = self.0.set_keepalive(true).and_then(|()| self.0.set_tcp_keepalive(&keepalive));
        self.0.set_tcp_congestion(tuning.congestion.as_bytes())
    }

    /// Limits the bytes in the kernel that no subflow has sent yet (`TCP_NOTSENT_LOWAT`).
    pub fn limit_unsent(&self, bytes: u32) {
        // MPTCP has no such limit before Linux 6.9.
        let _ = self.0.set_tcp_notsent_lowat(bytes);
    }

    /// The error with which the connection failed, if it did.
    pub fn take_error(&self) -> io::Result<()> {
        self.0.take_error()?.map_or(Ok(()), Err)
    }

    /// Remote address and port.
    pub fn peer(&self) -> io::Result<SocketAddr> {
        self.0.peer_addr()?.as_socket().ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Sends the start of `bytes`, and returns how many the socket accepted; `WouldBlock` if none.
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(&self.0, bytes, SendFlags::NOSIGNAL)?)
    }

    /// Receives into `space`. Returns 0 at the end of the stream; `WouldBlock` if there is no data.
    pub fn receive(&self, space: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::net::recv(&self.0, space, RecvFlags::empty())?.0)
    }

    /// Payload of a full segment of the first subflow, bytes.
    #[must_use]
    pub fn segment_size(&self) -> Option<usize> {
        let mut info = [0; TCP_INFO_SND_MSS + 4];
        option(&self.0, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info).ok()?;
        let size = u32::from_ne_bytes(*info.last_chunk()?);
        // tcpi_snd_mss does not account for the DSS option.
        usize::try_from(size).ok()?.checked_sub(DSS_LEN)
    }

    /// The subflows of the connection. `None` while they change, or if the peer uses plain TCP.
    #[must_use]
    pub fn subflows(&self) -> Option<Vec<Subflow>> {
        subflow::all(&self.0).ok().flatten()
    }

    /// Token of the connection, by which the path manager identifies it (RFC 8684 section 3.2).
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

fn socket(address: IpAddr, interface: Option<u32>) -> io::Result<Socket> {
    let domain = if address.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
    let kind = Type::STREAM.nonblocking().cloexec();
    let socket = Socket::new(domain, kind, Some(Protocol::MPTCP))?;
    if let Some(interface) = interface {
        bind_to_interface(&socket, interface)?;
    }
    // Without CAP_NET_ADMIN, auto-tuning remains.
    let _ = sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER);
    Ok(socket)
}

/// Reads a socket option into `value`, and returns its length.
fn option(socket: &Socket, level: c_int, name: c_int, value: &mut [u8]) -> io::Result<usize> {
    let mut len = libc::socklen_t::try_from(value.len()).map_err(io::Error::other)?;
    // SAFETY: the kernel writes at most `len` bytes to `value`, which has as many.
    let result = unsafe {
        let value = value.as_mut_ptr().cast();
        libc::getsockopt(socket.as_raw_fd(), level, name, value, &raw mut len)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(len as usize) }
}
