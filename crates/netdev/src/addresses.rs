//! Addresses and links of the calling thread's network namespace, and a watch on their changes
//! (rtnetlink(7)).

use std::{
    io,
    net::{IpAddr, UdpSocket},
    os::fd::{AsFd, BorrowedFd},
};

use rtnetlink::{
    packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload},
    packet_route::{
        RouteNetlinkMessage,
        address::{AddressAttribute, AddressFlags, AddressMessage, AddressScope},
        link::{LinkAttribute, LinkFlags, LinkMessage},
    },
    sys::{Socket, SocketAddr as Port, constants::NETLINK_ROUTE},
};

/// Multicast groups of links, addresses and routes (`RTNLGRP_*`).
const GROUPS: [u32; 5] = [1, 5, 9, 7, 11];

/// Longest message of the kernel, bytes.
const BUFFER: usize = 32 << 10;

/// Messages read before the event loop goes on with other work.
const BUDGET: usize = 256;

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its index.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Whether it is up and has a carrier.
    pub up: bool,
}

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Index of the interface.
    pub interface: u32,
    /// The address.
    pub address: IpAddr,
    /// Whether packets may have it as their source.
    pub state: AddressState,
    /// Whether it is a further address of its prefix (IPv4), or a temporary one (IPv6).
    pub secondary: bool,
}

/// State of an address (RFC 4862 section 5.4 and 5.5.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AddressState {
    /// For new connections.
    Preferred,
    /// For connections that have it already.
    Deprecated,
    /// Not to be used: duplicate address detection is running or has failed.
    Tentative,
}

/// Links and addresses at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Interfaces.
    pub links: Vec<Link>,
    /// Their addresses with global scope.
    pub addresses: Vec<Address>,
}

impl Snapshot {
    /// Asks the kernel.
    ///
    /// # Errors
    /// The kernel's.
    pub fn read() -> io::Result<Self> {
        let socket = Socket::new(NETLINK_ROUTE)?;
        socket.set_non_blocking(true)?;
        let mut this = Self::default();
        dump(&socket, RouteNetlinkMessage::GetLink(LinkMessage::default()), |message| {
            if let RouteNetlinkMessage::NewLink(message) = message {
                this.links.extend(link(message));
            }
        })?;
        dump(&socket, RouteNetlinkMessage::GetAddress(AddressMessage::default()), |message| {
            if let RouteNetlinkMessage::NewAddress(message) = message {
                this.addresses.extend(address(message));
            }
        })?;
        Ok(this)
    }

    /// The interface with this name.
    #[must_use]
    pub fn link(&self, name: &str) -> Option<&Link> {
        self.links.iter().find(|link| link.name == name)
    }

    /// Addresses of an interface and family.
    pub fn of(&self, interface: u32, ipv6: bool) -> impl Iterator<Item = &Address> {
        let matches = move |address: &&Address| {
            address.interface == interface && address.address.is_ipv6() == ipv6
        };
        self.addresses.iter().filter(matches)
    }

    /// The address of an interface that its packets should have: `current` as long as it is
    /// preferred, otherwise the first of the best kind.
    #[must_use]
    pub fn choose(&self, interface: u32, ipv6: bool, current: Option<IpAddr>) -> Option<IpAddr> {
        let usable = self.of(interface, ipv6);
        let usable = usable.filter(|address| address.state != AddressState::Tentative);
        let best = usable.min_by_key(|address| {
            (address.state, Some(address.address) != current, address.secondary)
        });
        best.map(|address| address.address)
    }
}

/// Whether a socket can be bound to an address at present.
#[must_use]
pub fn is_local(address: IpAddr) -> bool {
    let bound = UdpSocket::bind((address, 0));
    !bound.is_err_and(|error| error.kind() == io::ErrorKind::AddrNotAvailable)
}

/// Readable when links, addresses or routes have changed.
#[derive(Debug)]
pub struct Watch(Socket);

impl Watch {
    /// Starts to watch.
    ///
    /// # Errors
    /// The kernel's.
    pub fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.set_non_blocking(true)?;
        socket.bind_auto()?;
        for group in GROUPS {
            socket.add_membership(group)?;
        }
        Ok(Self(socket))
    }

    /// Discards the events so far. They say only that something has changed: what it is now,
    /// [`Snapshot::read`] tells.
    pub fn clear(&self) {
        let mut buffer = Vec::with_capacity(BUFFER);
        for _ in 0..BUDGET {
            buffer.clear();
            match self.0.recv(&mut buffer, 0) {
                Ok(_) => {}
                // Events were lost; the others are still queued.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
                Err(_) => return,
            }
        }
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Requests all objects of a kind. The kernel replies within the system calls, so nothing waits.
pub(crate) fn dump(
    socket: &Socket,
    request: RouteNetlinkMessage,
    mut take: impl FnMut(RouteNetlinkMessage),
) -> io::Result<()> {
    let mut request = NetlinkMessage::from(request);
    request.header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    request.finalize();
    let mut bytes = vec![0; request.buffer_len()];
    request.serialize(&mut bytes);
    socket.send_to(&bytes, &Port::new(0, 0), 0)?;
    let mut buffer = Vec::with_capacity(BUFFER);
    loop {
        buffer.clear();
        socket.recv(&mut buffer, 0)?;
        let mut rest = buffer.as_slice();
        while let Some(message) = next(&mut rest) {
            // A newer kernel may have messages that cannot be parsed.
            let Ok(message) = Message::deserialize(message) else { continue };
            match message.payload {
                NetlinkPayload::InnerMessage(message) => take(message),
                NetlinkPayload::Done(_) => return Ok(()),
                NetlinkPayload::Error(error) => return Err(error.to_io()),
                _ => {}
            }
        }
    }
}

type Message = NetlinkMessage<RouteNetlinkMessage>;

/// The next message of a datagram; None at its end.
fn next<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = u32::from_ne_bytes(*rest.first_chunk()?);
    let len = usize::try_from(len).ok().filter(|len| *len >= 16)?;
    let message = rest.get(..len)?;
    *rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
    Some(message)
}

fn link(message: LinkMessage) -> Option<Link> {
    let up = LinkFlags::Up | LinkFlags::LowerUp;
    let up = message.header.flags.contains(up);
    let index = message.header.index;
    let mut attributes = message.attributes.into_iter();
    attributes.find_map(|attribute| match attribute {
        LinkAttribute::IfName(name) => Some(Link { index, name, up }),
        _ => None,
    })
}

fn address(message: AddressMessage) -> Option<Address> {
    if message.header.scope != AddressScope::Universe {
        return None;
    }
    let (mut own, mut flags) = (None, None);
    for attribute in message.attributes {
        match attribute {
            // On a link to one host, `Address` is that host's.
            AddressAttribute::Local(address) => own = Some(address),
            AddressAttribute::Address(address) => own = own.or(Some(address)),
            AddressAttribute::Flags(found) => flags = Some(found),
            _ => {}
        }
    }
    let flags = flags.unwrap_or(AddressFlags::from_bits_retain(message.header.flags.bits().into()));
    let state = if flags.intersects(AddressFlags::Tentative | AddressFlags::Dadfailed) {
        AddressState::Tentative
    } else if flags.contains(AddressFlags::Deprecated) {
        AddressState::Deprecated
    } else {
        AddressState::Preferred
    };
    let secondary = flags.contains(AddressFlags::Secondary);
    Some(Address { interface: message.header.index, address: own?, state, secondary })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(address: [u8; 4], state: AddressState, secondary: bool) -> Address {
        Address { interface: 2, address: address.into(), state, secondary }
    }

    #[test]
    fn the_loopback_is_read() {
        let snapshot = Snapshot::read().unwrap();
        let loopback = snapshot.link("lo").unwrap();
        assert_eq!(loopback.index, 1);
        assert_eq!(snapshot.link("no-such-port"), None);
    }

    #[test]
    fn only_addresses_of_this_host_are_local() {
        assert!(is_local([127, 0, 0, 1].into()));
        assert!(!is_local([192, 0, 2, 77].into()));
    }

    #[test]
    fn the_current_address_stays_while_it_is_preferred() {
        use AddressState::{Deprecated, Preferred, Tentative};
        let [a, b, c] = [[192, 0, 2, 1], [192, 0, 2, 2], [192, 0, 2, 3]];
        let addresses = vec![of(a, Tentative, false)];
        let mut snapshot = Snapshot { links: Vec::new(), addresses };
        assert_eq!(snapshot.choose(2, false, None), None);
        snapshot.addresses.extend([of(b, Preferred, true), of(c, Preferred, false)]);
        assert_eq!(snapshot.choose(2, false, None), Some(c.into()), "the primary one");
        assert_eq!(snapshot.choose(2, false, Some(b.into())), Some(b.into()));
        assert_eq!(snapshot.choose(2, false, Some([192, 0, 2, 9].into())), Some(c.into()));
        snapshot.addresses[1].state = Deprecated;
        assert_eq!(snapshot.choose(2, false, Some(b.into())), Some(c.into()));
        assert_eq!(snapshot.choose(2, true, None), None);
        assert_eq!(snapshot.choose(3, false, None), None);
    }
}
