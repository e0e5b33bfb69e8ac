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

/// The protocol of our routes is shown as `static` by `ip route`.
const PROTOCOL: RouteProtocol = RouteProtocol::Static;

/// Where the rule for marked packets stands: before the main table (32766), behind our own addresses (0).
const RULE_PRIORITY: u32 = 1000;

/// A version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Version 4.
    V4,
    /// Version 6.
    V6,
}

/// The kernel refused a change.
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

/// The machine's (or network namespace's) interfaces and routes.
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

    /// Gives an interface an address.
    pub async fn add_address(&self, interface: u32, address: IpNet) -> Result<(), Error> {
        let done = self.0.address().add(interface, address.addr(), address.prefix_len());
        let done = done.replace().execute().await;
        done.map_err(|source| Error { what: format!("address {address}"), source })
    }

    /// Takes away what [`Routes::add_address`] gave, if it is there.
    pub async fn remove_address(&self, interface: u32, address: IpNet) -> Result<(), Error> {
        let mut request = self.0.address().add(interface, address.addr(), address.prefix_len());
        let message = request.message_mut().clone();
        let done = self.0.address().del(message).execute().await;
        unless_gone(done).map_err(|source| Error { what: format!("address {address}"), source })
    }

    /// Adds a route to `prefix` through an interface, or replaces the one there is; `source`, of the same family, is
    /// what the machine's own packets there come from.
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

    /// Leads IPv4 packets with a mark to routers, each an interface and an address, in turns by flow; in
    /// a routing table whose number is the mark.
    pub async fn lead_marked(&self, mark: u32, routers: &[(u32, Ipv4Addr)]) -> Result<(), Error> {
        let route = marked_route(mark, routers).map_err(|source| marked_failed(mark, source))?;
        self.lead(mark, route, self.marked_rule(Family::V4, mark)).await
    }

    /// Removes what [`Routes::lead_marked`] added.
    pub async fn forget_marked(&self, mark: u32) -> Result<(), Error> {
        let route = marked_route(mark, &[]).map_err(|source| marked_failed(mark, source))?;
        self.forget(mark, route, self.marked_rule(Family::V4, mark)).await
    }

    /// Takes packets of a family with a mark in as if they were to this machine, which lets transparent sockets
    /// have them.
    pub async fn keep_marked(&self, family: Family, mark: u32) -> Result<(), Error> {
        self.lead(mark, own_route(family, mark)?, self.marked_rule(family, mark)).await
    }

    /// Removes what [`Routes::keep_marked`] added, if it is there.
    pub async fn forget_kept(&self, family: Family, mark: u32) -> Result<(), Error> {
        self.forget(mark, own_route(family, mark)?, self.marked_rule(family, mark)).await
    }

    async fn lead(&self, mark: u32, route: RouteMessage, rule: RuleMessage) -> Result<(), Error> {
        let failed = |source| marked_failed(mark, source);
        self.0.route().add(route).replace().execute().await.map_err(failed)?;
        let mut request = self.0.rule().add();
        *request.message_mut() = rule;
        match request.execute().await {
            Err(rtnetlink::Error::NetlinkError(message)) if is_there(message.raw_code()) => Ok(()),
            result => result.map_err(failed),
        }
    }

    async fn forget(&self, mark: u32, route: RouteMessage, rule: RuleMessage) -> Result<(), Error> {
        let failed = |source| marked_failed(mark, source);
        let rule = self.0.rule().del(rule).execute().await;
        let route = self.0.route().del(route).execute().await;
        unless_gone(rule).and(unless_gone(route)).map_err(failed)
    }

    fn marked_rule(&self, family: Family, mark: u32) -> RuleMessage {
        let rule = self.0.rule().add().fw_mark(mark).table_id(mark);
        let rule = rule.priority(RULE_PRIORITY).action(RuleAction::ToTable);
        match family {
            Family::V4 => rule.v4().message_mut().clone(),
            Family::V6 => rule.v6().message_mut().clone(),
        }
    }

    /// Removes what [`Routes::add`] added, if it is there.
    pub async fn remove(&self, interface: u32, prefix: IpNet) -> Result<(), Error> {
        let done = self.0.route().del(route(interface, prefix, None)).execute().await;
        unless_gone(done).map_err(|source| Error { what: format!("route to {prefix}"), source })
    }
}

/// What was to be removed, or its whole family, is not there.
pub(crate) fn unless_gone(done: Result<(), rtnetlink::Error>) -> Result<(), rtnetlink::Error> {
    const GONE: [i32; 4] = [-libc::ESRCH, -libc::ENOENT, -libc::EADDRNOTAVAIL, -libc::EAFNOSUPPORT];
    match done {
        Err(rtnetlink::Error::NetlinkError(message)) if GONE.contains(&message.raw_code()) => {
            Ok(())
        }
        done => done,
    }
}

pub(crate) fn is_there(code: i32) -> bool {
    code == -libc::EEXIST
}

fn marked_failed(mark: u32, source: rtnetlink::Error) -> Error {
    Error { what: format!("route for packets with mark {mark:#x}"), source }
}

/// Everything is this machine's own.
fn own_route(family: Family, table: u32) -> Result<RouteMessage, Error> {
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

fn marked_route(table: u32, routers: &[(u32, Ipv4Addr)]) -> Result<RouteMessage, rtnetlink::Error> {
    let hop = |(interface, address): &(u32, Ipv4Addr)| {
        let hop = RouteNextHopBuilder::new_ipv4().interface(*interface);
        hop.via((*address).into()).map(|hop| hop.onlink().build())
    };
    let hops = routers.iter().map(hop).collect::<Result<Vec<_>, _>>();
    let hops = hops.map_err(|error| rtnetlink::Error::InvalidNla(error.to_string()))?;
    let route = RouteMessageBuilder::<Ipv4Addr>::new().table_id(table).protocol(PROTOCOL);
    Ok(if hops.is_empty() { route } else { route.multipath(hops) }.build())
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

/// The number of an interface.
pub fn interface(name: &str) -> std::io::Result<u32> {
    let any = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    Ok(netdevice::name_to_index(any.as_fd(), name)?)
}
