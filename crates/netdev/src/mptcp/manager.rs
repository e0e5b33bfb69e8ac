//! The user-space path manager: this process, not the kernel, decides which subflows a connection has
//! (generic netlink family `mptcp_pm`; Linux 5.19).

use std::{
    fs, io,
    net::SocketAddr,
    os::fd::{AsFd, BorrowedFd},
};

use rtnetlink::sys::{Socket, SocketAddr as Port, constants::NETLINK_GENERIC};

use super::{
    Local,
    message::{self, Address, Family, Part, Request},
};

/// Path manager of new connections of the network namespace: 1 is the user-space one.
const TYPE: &str = "/proc/sys/net/mptcp/pm_type";

/// Longest message of the kernel, bytes.
const BUFFER: usize = 8192;

/// A connection to the kernel's path manager, for commands and events.
///
/// While it exists, peers may join connections of this network namespace: the kernel refuses joins if nobody
/// listens to events.
#[derive(Debug)]
pub struct Manager {
    commands: Socket,
    events: Socket,
    family: u16,
}

/// The two ends of a subflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Local address and port; port 0: chosen by the kernel.
    pub local: SocketAddr,
    /// Remote address and port.
    pub remote: SocketAddr,
}

impl Manager {
    /// Takes over path management if the network namespace uses the user-space path manager. Otherwise
    /// `None`: the kernel creates subflows for its configured endpoints.
    pub fn open() -> io::Result<Option<Self>> {
        if !fs::read_to_string(TYPE).is_ok_and(|text| text.trim() == "1") {
            return Ok(None);
        }
        let (commands, mut events) = (socket()?, socket()?);
        let Family { id, event_group } =
            message::family(&request(&commands, &message::find_family())?)
                .ok_or(io::ErrorKind::Unsupported)?;
        events.bind_auto()?;
        events.add_membership(event_group)?;
        Ok(Some(Self { commands, events, family: id }))
    }

    /// Creates a subflow of the connection with this token.
    ///
    /// `address_id` identifies the local address within the connection (RFC 8684 section 3.2); not
    /// 0, and not one that has stood for another address.
    pub fn create(
        &self,
        token: u32,
        address_id: u8,
        local: Local,
        remote: SocketAddr,
    ) -> io::Result<()> {
        let Local { address, interface } = local;
        let own = Address { id: Some(address_id), interface, ..Address::new(address) };
        self.command(message::SUBFLOW_CREATE, token, own, remote)
    }

    /// Closes a subflow. Its unacknowledged data is sent on others at once.
    pub fn destroy(&self, token: u32, ends: Ends) -> io::Result<()> {
        let local = Address { port: Some(ends.local.port()), ..Address::new(ends.local.ip()) };
        self.command(message::SUBFLOW_DESTROY, token, local, ends.remote)
    }

    /// Discards all events, which only signal that subflows have changed.
    pub fn clear(&self) {
        let mut buffer = Vec::with_capacity(BUFFER);
        loop {
            buffer.clear();
            match self.events.recv(&mut buffer, 0) {
                Ok(_) => {}
                // Events were lost; the others are still queued.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
                Err(_) => return,
            }
        }
    }

    fn command(
        &self,
        command: u8,
        token: u32,
        local: Address,
        remote: SocketAddr,
    ) -> io::Result<()> {
        let remote = Address { port: Some(remote.port()), ..Address::new(remote.ip()) };
        let request = Request::new(self.family, command)
            .u32(message::TOKEN, token)
            .address(message::LOCAL, local)
            .address(message::REMOTE, remote);
        self::request(&self.commands, &request.finish()).map(|_| ())
    }
}

impl AsFd for Manager {
    /// Readable if there are events.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }
}

fn socket() -> io::Result<Socket> {
    let socket = Socket::new(NETLINK_GENERIC)?;
    socket.set_non_blocking(true)?;
    Ok(socket)
}

/// Sends a request and returns the attributes of the reply, which are empty for a mere acknowledgement.
///
/// The kernel replies within `sendto(2)`, so nothing waits.
fn request(socket: &Socket, request: &[u8]) -> io::Result<Vec<u8>> {
    socket.send_to(request, &Port::new(0, 0), 0)?;
    let (mut buffer, mut found) = (Vec::with_capacity(BUFFER), Vec::new());
    loop {
        buffer.clear();
        socket.recv(&mut buffer, 0)?;
        for part in message::messages(&buffer) {
            match part {
                Part::Reply(attributes) => found = attributes.to_vec(),
                Part::Done(0) => return Ok(found),
                Part::Done(error) => return Err(io::Error::from_raw_os_error(error)),
            }
        }
    }
}
