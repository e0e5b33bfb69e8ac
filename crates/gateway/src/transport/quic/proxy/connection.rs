//! A TCP connection terminated by the proxy, as a kernel socket.

use std::io;

use hawser_netdev::transparent;
use hawser_tunnel::Stream;
use hawser_wire::proxy::Reason;
use rustix::io::Errno;

/// The socket.
pub(in super::super) struct Connection(pub(super) transparent::Stream);

impl Stream for Connection {
    fn receive(&mut self, space: &mut [u8]) -> Result<Option<usize>, Reason> {
        unless_blocked(self.0.receive(space))
    }

    fn send<'a>(&mut self, parts: impl Iterator<Item = &'a [u8]>) -> Result<Option<usize>, Reason> {
        unless_blocked(self.0.send(parts))
    }

    fn shutdown(&mut self) -> Result<(), Reason> {
        self.0.shutdown().map_err(|error| reason(&error))
    }

    fn failure(&mut self) -> Option<Reason> {
        self.0.take_error().err().map(|error| reason(&error))
    }

    fn finish(self) {
        let _ = self.0.finish();
    }
}

fn unless_blocked(result: io::Result<usize>) -> Result<Option<usize>, Reason> {
    match result {
        Ok(len) => Ok(Some(len)),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(reason(&error)),
    }
}

/// Reason to report to the peer for a socket error.
pub(super) fn reason(error: &io::Error) -> Reason {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::CONNREFUSED) => Reason::Refused,
        Some(Errno::TIMEDOUT) => Reason::TimedOut,
        Some(Errno::HOSTUNREACH | Errno::NETUNREACH) => Reason::Unreachable,
        _ => Reason::Reset,
    }
}
