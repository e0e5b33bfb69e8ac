//! Probing of a path with a plain TCP connection.

use std::{io, net::SocketAddr, time::Duration};

use socket2::{Domain, Protocol, Socket, Type};

use super::Local;
use crate::options::bind_to_interface;

/// A plain TCP connection between the addresses of a subflow, which is reset once it is established. Unlike a
/// failing subflow it does not affect the MPTCP connection.
#[derive(Debug)]
pub struct Probe {
    socket: Socket,
    remote: SocketAddr,
}

impl Probe {
    /// Starts to connect.
    pub fn begin(local: Local, remote: SocketAddr) -> io::Result<Self> {
        let kind = Type::STREAM.nonblocking().cloexec();
        let socket = Socket::new(Domain::for_address(remote), kind, Some(Protocol::TCP))?;
        // Closing sends a reset, and leaves no socket in TIME_WAIT.
        socket.set_linger(Some(Duration::ZERO))?;
        if let Some(interface) = local.interface {
            bind_to_interface(&socket, interface)?;
        }
        socket.bind(&SocketAddr::new(local.address, 0).into())?;
        match socket.connect(&remote.into()) {
            Err(e) if e.raw_os_error() != Some(libc::EINPROGRESS) => Err(e),
            _ => Ok(Self { socket, remote }),
        }
    }

    /// Whether the connection was established; `None` while the peer has not answered.
    #[must_use]
    pub fn reached(&self) -> Option<bool> {
        match self.socket.connect(&self.remote.into()).map_err(|e| e.raw_os_error()) {
            Ok(()) | Err(Some(libc::EISCONN)) => Some(true),
            Err(Some(libc::EALREADY | libc::EINPROGRESS)) => None,
            Err(_) => Some(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, thread, time::Instant};

    use super::*;

    fn local(remote: SocketAddr) -> Local {
        Local { address: remote.ip(), interface: None }
    }

    fn outcome(probe: &Probe) -> Option<bool> {
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(5) {
            if let Some(reached) = probe.reached() {
                return Some(reached);
            }
            thread::sleep(Duration::from_millis(1));
        }
        None
    }

    #[test]
    fn a_probe_finds_a_listener() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let remote = listener.local_addr().unwrap();
        let probe = Probe::begin(local(remote), remote).unwrap();
        assert_eq!(outcome(&probe), Some(true));
        assert_eq!(outcome(&probe), Some(true), "asked again");
        drop(listener);
        let probe = Probe::begin(local(remote), remote);
        assert!(probe.map_or(true, |probe| outcome(&probe) == Some(false)));
    }
}
