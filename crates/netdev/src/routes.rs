//! Interfaces and routes, through netlink.

use std::{net::Ipv4Addr, os::fd::AsFd};

use ipnet::IpNet;
use rtnetlink::{
    Handle, LinkUnspec, RouteMessageBuilder,
    packet_route::route::{RouteMessage, RouteProtocol, RouteScope},
};
use rustix::net::{AddressFamily, SocketType, netdevice, socket};

/// The protocol of our routes is shown as `static` by `ip route`.
const PROTOCOL: RouteProtocol = RouteProtocol::Static;

/// The kernel refused a change.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {source}")]
pub struct Error {
    what: String,
    source: rtnetlink::Error,
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

    /// Takes away what [`Routes::add_address`] gave.
    pub async fn remove_address(&self, interface: u32, address: IpNet) -> Result<(), Error> {
        let mut request = self.0.address().add(interface, address.addr(), address.prefix_len());
        let message = request.message_mut().clone();
        let done = self.0.address().del(message).execute().await;
        done.map_err(|source| Error { what: format!("address {address}"), source })
    }

    /// Adds a route to `prefix` through an interface, or replaces the one there is.
    pub async fn add(
        &self,
        interface: u32,
        prefix: IpNet,
        source: Option<Ipv4Addr>,
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

    /// Removes what [`Routes::add`] added.
    pub async fn remove(&self, interface: u32, prefix: IpNet) -> Result<(), Error> {
        let done = self.0.route().del(route(interface, prefix, None)).execute().await;
        done.map_err(|source| Error { what: format!("route to {prefix}"), source })
    }
}

fn route(interface: u32, prefix: IpNet, source: Option<Ipv4Addr>) -> RouteMessage {
    match prefix {
        IpNet::V4(net) => {
            let route = RouteMessageBuilder::<Ipv4Addr>::new()
                .destination_prefix(net.network(), net.prefix_len())
                .output_interface(interface)
                .scope(RouteScope::Link)
                .protocol(PROTOCOL);
            source
                .map_or_else(|| route.clone(), |address| route.clone().pref_source(address))
                .build()
        }
        IpNet::V6(net) => RouteMessageBuilder::<std::net::Ipv6Addr>::new()
            .destination_prefix(net.network(), net.prefix_len())
            .output_interface(interface)
            .protocol(PROTOCOL)
            .build(),
    }
}

/// The number of an interface.
pub fn interface(name: &str) -> std::io::Result<u32> {
    let any = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    Ok(netdevice::name_to_index(any.as_fd(), name)?)
}
