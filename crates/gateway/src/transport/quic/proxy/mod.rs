//! Sockets of the TCP proxy: intercepted connections, and those opened for peers.

mod connection;
mod intercept;

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr},
    time::Instant,
};

use hawser_netdev::{
    poll::{Interest, Ready},
    transparent::{Listener, Stream},
};
use hawser_tunnel::{StreamReady, Tunnel};
use hawser_wire::proxy::Reason;

use self::{
    connection::reason,
    intercept::{Intercept, Ports, ruleset},
};
use super::super::{Host, TICK};
use crate::{classify, config::Config};

pub(super) use self::connection::Connection;
pub(crate) use self::intercept::{remove, set};

/// First poller tokens of the listening sockets (IPv4, IPv6) and of connections.
const LISTENER: u64 = u64::MAX - 2;
const LISTENER6: u64 = u64::MAX - 3;
const STREAMS: u64 = 1 << 40;

/// Connections accepted per turn.
const ACCEPTS: usize = 64;

/// Listening sockets, and the interception of connections.
pub(super) struct Proxy {
    listener: Listener,
    /// None if the kernel has no IPv6.
    listener6: Option<Listener>,
    ports: Ports,
    intercept: Intercept,
    /// Whether the rules may have to change.
    changed: bool,
    next_look: Instant,
}

impl Proxy {
    /// Listens; nothing is intercepted yet.
    pub(super) fn new(host: &Host, config: &Config) -> io::Result<Self> {
        let unsupported = |error: anyhow::Error| {
            io::Error::new(io::ErrorKind::Unsupported, format!("TPROXY ({error:#})"))
        };
        let listener = Listener::bind(Ipv4Addr::LOCALHOST.into())?;
        let listener6 = Listener::bind(Ipv6Addr::LOCALHOST.into()).ok();
        let v6 = listener6.as_ref().map(Listener::port).transpose()?;
        let ports = Ports { v4: listener.port()?, v6 };
        let rules = ruleset(config, ports, &std::iter::empty(), &[]);
        let intercept = Intercept::new(rules).map_err(unsupported)?;
        raise_limit();
        host.poller.add(&listener, LISTENER, Interest::Read)?;
        if let Some(listener) = &listener6 {
            host.poller.add(listener, LISTENER6, Interest::Read)?;
        }
        let next_look = Instant::now();
        Ok(Self { listener, listener6, ports, intercept, changed: false, next_look })
    }

    /// A descriptor is ready; returns whether it is one of the proxy's.
    pub(super) fn handle_ready(
        &self,
        host: &Host,
        tunnel: &mut Tunnel<Connection>,
        event: Ready,
        now: Instant,
    ) -> bool {
        match event.token {
            LISTENER => accept(host, tunnel, &self.listener, now),
            LISTENER6 => {
                if let Some(listener) = &self.listener6 {
                    accept(host, tunnel, listener, now);
                }
            }
            STREAMS.. => {
                let Ready { readable, writable, failed, .. } = event;
                let slot = usize::try_from(event.token - STREAMS).unwrap_or(usize::MAX);
                tunnel.handle_stream(slot, StreamReady { readable, writable, failed });
            }
            _ => return false,
        }
        true
    }

    /// Updates the interception after peers have changed; retried while a replacement is running.
    pub(super) fn advance(&mut self, host: &Host, tunnel: &mut Tunnel<Connection>, now: Instant) {
        self.changed |= tunnel.proxy_peers_changed();
        if self.changed && now >= self.next_look {
            self.next_look = now + TICK;
            let full: Vec<_> = tunnel.proxy_full_clients().collect();
            let rules = ruleset(&host.config, self.ports, &tunnel.proxy_peers(), &full);
            self.changed = !self.intercept.change(rules);
        }
    }
}

/// Accepts connections of clients.
fn accept(host: &Host, tunnel: &mut Tunnel<Connection>, listener: &Listener, now: Instant) {
    for _ in 0..ACCEPTS {
        match listener.accept() {
            Ok(stream) => accepted(host, tunnel, stream, now),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
            Err(error) => tracing::debug!(%error, "accept"),
        }
    }
}

/// A client has connected.
fn accepted(host: &Host, tunnel: &mut Tunnel<Connection>, stream: Stream, now: Instant) {
    let Ok((client, server)) = stream.ends() else { return };
    if host.poller.add(&stream, token(tunnel), Interest::Changes).is_ok() {
        let class = classify::connection(&host.config, client, server);
        tunnel.handle_accepted(now, Connection(stream), (client, server), class);
    }
}

/// Opens the connections that peers ask for; returns whether there were any.
pub(super) fn connect(host: &Host, tunnel: &mut Tunnel<Connection>) -> bool {
    let mut any = false;
    while let Some(wanted) = tunnel.poll_connect() {
        let (source, destination) = (wanted.source, wanted.destination);
        let stream = Stream::connect(source, destination).map_err(|error| reason(&error));
        let added = stream.and_then(|stream| {
            let added = host.poller.add(&stream, token(tunnel), Interest::Changes);
            added.map(|()| Connection(stream)).map_err(|_| Reason::Full)
        });
        if let Err(reason) = &added {
            tracing::debug!(%source, %destination, ?reason, "not connected");
        }
        let class = classify::connection(&host.config, destination, source);
        tunnel.handle_connecting(&wanted, added, class);
        any = true;
    }
    any
}

fn token(tunnel: &Tunnel<Connection>) -> u64 {
    STREAMS + tunnel.next_stream() as u64
}

/// Raises the limit of descriptors to the system's maximum: each connection needs one.
fn raise_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
}
