//! Default routes, as DHCP clients, pppd and router advertisements set them.

use std::{io, net::IpAddr};

use rtnetlink::{
    packet_route::{
        AddressFamily, RouteNetlinkMessage,
        route::{RouteAddress, RouteAttribute, RouteMessage, RouteType},
    },
    sys::{Socket, constants::NETLINK_ROUTE},
};

use crate::{addresses::dump, routes::Family};

/// Number of the main table.
pub const MAIN: u32 = 254;

/// One next hop of a default route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultRoute {
    /// Routing table.
    pub table: u32,
    /// Index of the interface.
    pub interface: u32,
    /// The router; None on a link to one host, such as PPP's.
    pub gateway: Option<IpAddr>,
    /// Lower ones are preferred.
    pub metric: u32,
}

/// All default routes of a family, of all tables.
///
/// # Errors
/// The kernel's.
pub fn read(family: Family) -> io::Result<Vec<DefaultRoute>> {
    let socket = Socket::new(NETLINK_ROUTE)?;
    socket.set_non_blocking(true)?;
    let mut request = RouteMessage::default();
    request.header.address_family = match family {
        Family::V4 => AddressFamily::Inet,
        Family::V6 => AddressFamily::Inet6,
    };
    let mut found = Vec::new();
    dump(&socket, RouteNetlinkMessage::GetRoute(request), |message| {
        if let RouteNetlinkMessage::NewRoute(message) = message
            && message.header.destination_prefix_length == 0
            && message.header.kind == RouteType::Unicast
        {
            found.extend(next_hops(&message));
        }
    })?;
    Ok(found)
}

fn next_hops(message: &RouteMessage) -> Vec<DefaultRoute> {
    let (mut table, mut metric) = (u32::from(message.header.table), 0);
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Table(number) => table = *number,
            RouteAttribute::Priority(priority) => metric = *priority,
            _ => {}
        }
    }
    let several = message.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::MultiPath(hops) => Some(hops),
        _ => None,
    });
    let one = |interface, attributes: &[RouteAttribute]| DefaultRoute {
        table,
        interface,
        gateway: attributes.iter().find_map(gateway),
        metric,
    };
    if let Some(hops) = several {
        return hops.iter().map(|hop| one(hop.interface_index, &hop.attributes)).collect();
    }
    let interface = message.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Oif(index) => Some(*index),
        _ => None,
    });
    interface.map(|index| one(index, &message.attributes)).into_iter().collect()
}

fn gateway(attribute: &RouteAttribute) -> Option<IpAddr> {
    match attribute {
        RouteAttribute::Gateway(RouteAddress::Inet(address)) => Some((*address).into()),
        RouteAttribute::Gateway(RouteAddress::Inet6(address)) => Some((*address).into()),
        _ => None,
    }
}
