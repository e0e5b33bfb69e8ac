//! The path manager in user space: who may join a connection, and which subflows it has, is decided here
//! and not by the kernel (generic netlink family `mptcp_pm`; Linux 5.19).

use std::{
    fs, io,
    net::{IpAddr, SocketAddr},
    os::fd::{AsFd, BorrowedFd},
};

use rtnetlink::sys::{Socket, SocketAddr as Port, constants::NETLINK_GENERIC};

use super::message::{self, Family, Part, Request};

/// Which path manager new connections of this network namespace have: 1 is that in user space.
const TYPE: &str = "/proc/sys/net/mptcp/pm_type";

/// Bytes that a message of the kernel has, at most.
const BUFFER: usize = 8192;

/// Commands for the kernel, and its news.
///
/// While it lives, other ends may join connections of this network namespace: without somebody who hears
/// the news the kernel lets nobody in.
#[derive(Debug)]
pub struct Manager {
    commands: Socket,
    news: Socket,
    family: u16,
}

/// A subflow's two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Own address and port; port 0 where the kernel shall choose it.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
}

impl Manager {
    /// Takes over from the kernel, if this network namespace has its path manager in user space; None if
    /// not, where endpoints say which subflows there are.
    pub fn open() -> io::Result<Option<Self>> {
        if !fs::read_to_string(TYPE).is_ok_and(|text| text.trim() == "1") {
            return Ok(None);
        }
        let (commands, mut news) = (socket()?, socket()?);
        let Family { id, events } = message::family(&ask(&commands, &message::find_family())?)
            .ok_or(io::ErrorKind::Unsupported)?;
        news.bind_auto()?;
        news.add_membership(events)?;
        Ok(Some(Self { commands, news, family: id }))
    }

    /// Begins a subflow of the connection with this token.
    ///
    /// `number` tells the own addresses of a connection apart: each has one, not 0.
    pub fn create(&self, token: u32, number: u8, ends: Ends) -> io::Result<()> {
        let local = (ends.local.ip(), None, Some(number));
        self.command(message::SUBFLOW_CREATE, token, local, ends.remote)
    }

    /// Ends a subflow: what was not acknowledged on it is sent on others at once.
    pub fn destroy(&self, token: u32, ends: Ends) -> io::Result<()> {
        let local = (ends.local.ip(), Some(ends.local.port()), None);
        self.command(message::SUBFLOW_DESTROY, token, local, ends.remote)
    }

    /// Forgets the news; they only say that it is time to look.
    pub fn clear(&self) {
        let mut buffer = Vec::with_capacity(BUFFER);
        loop {
            buffer.clear();
            match self.news.recv(&mut buffer, 0) {
                Ok(_) => {}
                // Some were lost, and the rest is still there.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
                Err(_) => return,
            }
        }
    }

    fn command(
        &self,
        command: u8,
        token: u32,
        (local, port, number): (IpAddr, Option<u16>, Option<u8>),
        remote: SocketAddr,
    ) -> io::Result<()> {
        let request = Request::new(self.family, command)
            .u32(message::TOKEN, token)
            .address(message::LOCAL, local, port, number)
            .address(message::REMOTE, remote.ip(), Some(remote.port()), None);
        ask(&self.commands, &request.finish()).map(|_| ())
    }
}

impl AsFd for Manager {
    /// Readable when there are news.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.news.as_fd()
    }
}

fn socket() -> io::Result<Socket> {
    let socket = Socket::new(NETLINK_GENERIC)?;
    socket.set_non_blocking(true)?;
    Ok(socket)
}

/// Sends a request and gives the attributes of the answer; none where there is nothing but success.
///
/// The kernel answers before it has taken the request, so that there is nothing to wait for.
fn ask(socket: &Socket, request: &[u8]) -> io::Result<Vec<u8>> {
    socket.send_to(request, &Port::new(0, 0), 0)?;
    let (mut buffer, mut found) = (Vec::with_capacity(BUFFER), Vec::new());
    loop {
        buffer.clear();
        socket.recv(&mut buffer, 0)?;
        for part in message::messages(&buffer) {
            match part {
                Part::Answer(attributes) => found = attributes.to_vec(),
                Part::Done(0) => return Ok(found),
                Part::Done(error) => return Err(io::Error::from_raw_os_error(error)),
            }
        }
    }
}
