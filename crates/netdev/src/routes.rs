//! Interfaces and routes, through netlink.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    os::fd::AsFd,
};

use ipnet::IpNet;
use rtnetlink::{
    Handle, LinkUnspec, RouteMessageBuilder, RouteNextHopBuilder,
    packet_route::{
        route::{RouteMessage, RouteProtocol, RouteScope, RouteType},
        rule::{RuleAction, RuleMessage},
    },
};
use rustix::net::{AddressFamily, SocketType, netdevice, socket};

/// Protocol of the routes: `ip route` shows them as `static`.
const PROTOCOL: RouteProtocol = RouteProtocol::Static;

/// Priority of the rules for marked packets: after local addresses (0), before the main table (32766).
const RULE_PRIORITY: u32 = 1000;

/// A version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Version 4.
    V4,
    /// Version 6.
    V6,
}

/// A change that the kernel refused.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {source}")]
pub struct Error {
    what: String,
    source: rtnetlink::Error,
}

impl Error {
    pub(crate) fn new(what: String, source: rtnetlink::Error) -> Self {
        Self { what, source }
    }
}

/// Interfaces and routes of the network namespace.
#[derive(Clone, Debug)]
pub struct Routes(Handle);

impl Routes {
    /// Opens a netlink socket, served by the running tokio runtime.
    pub fn open() -> std::io::Result<Self> {
        let (connection, handle, _) = rtnetlink::new_connection()?;
        tokio::spawn(connection);
        Ok(Self(handle))
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.0
    }

    /// Sets MTU and queue length (packets) of an interface, and brings it up.
    pub async fn bring_up(&self, interface: u32, mtu: u16, queue: u32) -> Result<(), Error> {
        let message = LinkUnspec::new_with_index(interface).mtu(mtu.into()).txqueuelen(queue).up();
        let done = self.0.link().set(message.build()).execute().await;
        done.map_err(|source| Error {
            what: format!("interface {interface}: mtu {mtu}, up"),
            source,
        })
    }

    /// Adds an address to an interface.
    pub async fn add_address(&self, interface: u32, address: IpNet) -> Result<(), Error> {
        let done = self.0.address().add(interface, address.addr(), address.prefix_len());
        let done = done.replace().execute().await;
        done.map_err(|source| Error { what: format!("address {address}"), source })
    }

    /// Removes an address that [`Routes::add_address`] added, if it exists.
    pub async fn remove_address(&self, interface: u32, address: IpNet) -> Result<(), Error> {
        let mut request = self.0.address().add(interface, address.addr(), address.prefix_len());
        let message = request.message_mut().clone();
        let done = self.0.address().del(message).execute().await;
        ignore_missing(done).map_err(|source| Error { what: format!("address {address}"), source })
    }

    /// Adds or replaces a route to `prefix` through an interface. `source`, of the same family, is the source
    /// address of local packets.
    pub async fn add(
        &self,
        interface: u32,
        prefix: IpNet,
        source: Option<IpAddr>,
    ) -> Result<(), Error> {
        let what = || format!("route to {prefix}");
        let route = route(interface, prefix, source);
        self.0
            .route()
            .add(route)
            .replace()
            .execute()
            .await
            .map_err(|source| Error { what: what(), source })
    }

    /// Routes packets of a family with a mark to next hops, balanced by flow: interfaces, and routers there if
    /// there are any. The route is in a table whose number is the mark.
    pub async fn add_marked_route(
        &self,
        family: Family,
        mark: u32,
        next_hops: &[(u32, Option<IpAddr>)],
    ) -> Result<(), Error> {
        let route = marked_route(family, mark, next_hops);
        let route = route.map_err(|source| marked_failed(mark, source))?;
        self.add_to_table(mark, route, self.marked_rule(family, mark)).await
    }

    /// Removes what [`Routes::add_marked_route`] added, if it exists.
    pub async fn remove_marked_route(&self, family: Family, mark: u32) -> Result<(), Error> {
        let route =
            marked_route(family, mark, &[]).map_err(|source| marked_failed(mark, source))?;
        self.remove_from_table(mark, route, self.marked_rule(family, mark)).await
    }

    /// Delivers packets of a family with a mark locally, whatever their destination, so that transparent
    /// sockets receive them.
    pub async fn add_local_delivery(&self, family: Family, mark: u32) -> Result<(), Error> {
        let route = local_route(family, mark)?;
        self.add_to_table(mark, route, self.marked_rule(family, mark)).await
    }

    /// Removes what [`Routes::add_local_delivery`] added, if it exists.
    pub async fn remove_local_delivery(&self, family: Family, mark: u32) -> Result<(), Error> {
        let route = local_route(family, mark)?;
        self.remove_from_table(mark, route, self.marked_rule(family, mark)).await
    }

    async fn add_to_table(
        &self,
        mark: u32,
        route: RouteMessage,
        rule: RuleMessage,
    ) -> Result<(), Error> {
        let failed = |source| marked_failed(mark, source);
        self.0.route().add(route).replace().execute().await.map_err(failed)?;
        let mut request = self.0.rule().add();
        *request.message_mut() = rule;
        match request.execute().await {
            Err(rtnetlink::Error::NetlinkError(message)) if exists(message.raw_code()) => Ok(()),
            result => result.map_err(failed),
        }
    }

    async fn remove_from_table(
        &self,
        mark: u32,
        route: RouteMessage,
        rule: RuleMessage,
    ) -> Result<(), Error> {
        let failed = |source| marked_failed(mark, source);
        let rule = self.0.rule().del(rule).execute().await;
        let route = self.0.route().del(route).execute().await;
        ignore_missing(rule).and(ignore_missing(route)).map_err(failed)
    }

    fn marked_rule(&self, family: Family, mark: u32) -> RuleMessage {
        let rule = self.0.rule().add().fw_mark(mark).table_id(mark);
        let rule = rule.priority(RULE_PRIORITY).action(RuleAction::ToTable);
        match family {
            Family::V4 => rule.v4().message_mut().clone(),
            Family::V6 => rule.v6().message_mut().clone(),
        }
    }

    /// Answers packets to `prefix` with "administratively prohibited" (RFC 1812 section 5.2.7.1),
    /// wherever another route may lead them.
    pub async fn prohibit(&self, prefix: IpNet) -> Result<(), Error> {
        let done = self.0.route().add(prohibition(prefix)).replace().execute().await;
        done.map_err(|source| Error { what: format!("prohibition of {prefix}"), source })
    }

    /// Removes what [`Routes::prohibit`] added, if it exists.
    pub async fn allow(&self, prefix: IpNet) -> Result<(), Error> {
        let done = ignore_missing(self.0.route().del(prohibition(prefix)).execute().await);
        done.map_err(|source| Error { what: format!("prohibition of {prefix}"), source })
    }

    /// Removes a route that [`Routes::add`] added, if it exists.
    pub async fn remove(&self, interface: u32, prefix: IpNet) -> Result<(), Error> {
        let done = self.0.route().del(route(interface, prefix, None)).execute().await;
        ignore_missing(done).map_err(|source| Error { what: format!("route to {prefix}"), source })
    }
}

/// Turns the error that an object to be removed does not exist, or that its address family is not supported,
/// into success.
pub(crate) fn ignore_missing(done: Result<(), rtnetlink::Error>) -> Result<(), rtnetlink::Error> {
    const MISSING: [i32; 4] =
        [-libc::ESRCH, -libc::ENOENT, -libc::EADDRNOTAVAIL, -libc::EAFNOSUPPORT];
    match done {
        Err(rtnetlink::Error::NetlinkError(message)) if MISSING.contains(&message.raw_code()) => {
            Ok(())
        }
        done => done,
    }
}

/// Whether an error code means that the object to be added exists.
pub(crate) fn exists(code: i32) -> bool {
    code == -libc::EEXIST
}

fn marked_failed(mark: u32, source: rtnetlink::Error) -> Error {
    Error { what: format!("route for packets with mark {mark:#x}"), source }
}

/// A default route of type `local`: every destination is delivered locally.
fn local_route(family: Family, table: u32) -> Result<RouteMessage, Error> {
    let what = || "interface lo".to_owned();
    let loopback = interface("lo").map_err(|error| Error {
        what: what(),
        source: rtnetlink::Error::InvalidNla(error.to_string()),
    })?;
    Ok(match family {
        Family::V4 => RouteMessageBuilder::<Ipv4Addr>::new()
            .table_id(table)
            .protocol(PROTOCOL)
            .output_interface(loopback)
            .scope(RouteScope::Host)
            .kind(RouteType::Local)
            .build(),
        Family::V6 => RouteMessageBuilder::<Ipv6Addr>::new()
            .table_id(table)
            .protocol(PROTOCOL)
            .output_interface(loopback)
            .kind(RouteType::Local)
            .build(),
    })
}

fn marked_route(
    family: Family,
    table: u32,
    next_hops: &[(u32, Option<IpAddr>)],
) -> Result<RouteMessage, rtnetlink::Error> {
    let hop = |(interface, address): &(u32, Option<IpAddr>)| {
        let hop = match family {
            Family::V4 => RouteNextHopBuilder::new_ipv4(),
            Family::V6 => RouteNextHopBuilder::new_ipv6(),
        };
        let hop = hop.interface(*interface);
        match address {
            Some(address) => hop.via(*address).map(|hop| hop.onlink().build()),
            None => Ok(hop.build()),
        }
    };
    let hops = next_hops.iter().map(hop).collect::<Result<Vec<_>, _>>();
    let hops = hops.map_err(|error| rtnetlink::Error::InvalidNla(error.to_string()))?;
    let hops = Some(hops).filter(|hops| !hops.is_empty());
    Ok(match family {
        Family::V4 => {
            let route = RouteMessageBuilder::<Ipv4Addr>::new().table_id(table).protocol(PROTOCOL);
            hops.into_iter().fold(route, RouteMessageBuilder::multipath).build()
        }
        Family::V6 => {
            let route = RouteMessageBuilder::<Ipv6Addr>::new().table_id(table).protocol(PROTOCOL);
            hops.into_iter().fold(route, RouteMessageBuilder::multipath).build()
        }
    })
}

fn route(interface: u32, prefix: IpNet, source: Option<IpAddr>) -> RouteMessage {
    match prefix {
        IpNet::V4(net) => {
            let route = RouteMessageBuilder::<Ipv4Addr>::new()
                .destination_prefix(net.network(), net.prefix_len())
                .output_interface(interface)
                .scope(RouteScope::Link)
                .protocol(PROTOCOL);
            match source {
                Some(IpAddr::V4(address)) => route.pref_source(address),
                _ => route,
            }
            .build()
        }
        IpNet::V6(net) => {
            let route = RouteMessageBuilder::<Ipv6Addr>::new()
                .destination_prefix(net.network(), net.prefix_len())
                .output_interface(interface)
                .protocol(PROTOCOL);
            match source {
                Some(IpAddr::V6(address)) => route.pref_source(address),
                _ => route,
            }
            .build()
        }
    }
}

fn prohibition(prefix: IpNet) -> RouteMessage {
    match prefix {
        IpNet::V4(net) => RouteMessageBuilder::<Ipv4Addr>::new()
            .destination_prefix(net.network(), net.prefix_len())
            .protocol(PROTOCOL)
            .kind(RouteType::Prohibit)
            .build(),
        IpNet::V6(net) => RouteMessageBuilder::<Ipv6Addr>::new()
            .destination_prefix(net.network(), net.prefix_len())
            .protocol(PROTOCOL)
            .kind(RouteType::Prohibit)
            .build(),
    }
}

/// Index of an interface.
pub fn interface(name: &str) -> std::io::Result<u32> {
    let any = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    Ok(netdevice::name_to_index(any.as_fd(), name)?)
}
