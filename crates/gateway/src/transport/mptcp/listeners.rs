//! Listening sockets, and unauthenticated connections.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use hawser_netdev::{
    mptcp::Listener,
    poll::{Interest, Poller},
};
use hawser_tunnel::{Candidate, counters::UnauthenticatedCounters};
use hawser_wire::label;

use super::{link::Link, token::Token};
use crate::{config::Config, transport::may_change};

/// Time within which a connection must be established and both hellos exchanged.
pub(super) const HELLO_TIMEOUT: Duration = Duration::from_secs(5);

/// Address and port of a listening socket, and index of the interface that it is bound to.
pub(super) type Place = (SocketAddr, Option<u32>);

/// Listening sockets, and connections that have not sent a valid hello.
#[derive(Default)]
pub(super) struct Listeners {
    pub(super) sockets: BTreeMap<Place, (usize, Listener)>,
    /// See [`crate::transport::Transport::problems`].
    pub(super) problems: Vec<(IpAddr, String)>,
    next_listener: usize,
    unauthenticated: Vec<Option<Unauthenticated>>,
}

/// A connection that has not sent a valid hello.
pub(super) struct Unauthenticated {
    pub(super) link: Link,
    pub(super) address: SocketAddr,
    pub(super) since: Instant,
}

impl Listeners {
    /// Listens exactly where the configuration says, and where the addresses are there. On error
    /// nothing has changed.
    pub(super) fn listen(&mut self, config: &Config, poller: &Poller) -> io::Result<()> {
        let wanted = addresses(config);
        let (mut new, mut problems) = (Vec::new(), Vec::new());
        for place in wanted.iter().filter(|place| !self.sockets.contains_key(place)) {
            let (address, interface) = *place;
            match Listener::bind(address, interface) {
                Ok(listener) => {
                    let number = self.next_listener;
                    poller.add(&listener, Token::Listener(number).pack(), Interest::Read)?;
                    self.next_listener += 1;
                    new.push((*place, (number, listener)));
                }
                Err(error) if may_change(&error) => {
                    let reason = format!("listening on {address}: {error}");
                    problems.push((address.ip(), reason));
                }
                Err(e) => {
                    return Err(io::Error::new(e.kind(), format!("listening on {address}: {e}")));
                }
            }
        }
        self.sockets.retain(|place, _| wanted.contains(place));
        self.sockets.extend(new);
        self.problems = problems;
        Ok(())
    }

    /// Closes connections that have timed out.
    pub(super) fn expire(&mut self, now: Instant, counters: &mut UnauthenticatedCounters) {
        for place in &mut self.unauthenticated {
            if place.take_if(|connection| now - connection.since >= HELLO_TIMEOUT).is_some() {
                counters.no_hello += 1;
            }
        }
    }

    /// A free slot for a connection.
    pub(super) fn free_slot(&mut self) -> usize {
        let free = self.unauthenticated.iter().position(Option::is_none);
        free.unwrap_or_else(|| {
            self.unauthenticated.push(None);
            self.unauthenticated.len() - 1
        })
    }

    /// Connections that have not sent a valid hello.
    pub(super) fn pending(&self) -> impl Iterator<Item = Candidate> {
        let pending = self.unauthenticated.iter().flatten();
        pending.map(|known| Candidate { source: known.address.ip(), validated: true })
    }

    /// Closes one of [`Self::pending`].
    pub(super) fn drop_pending(&mut self, index: usize) {
        if let Some(place) = self.unauthenticated.iter_mut().filter(|p| p.is_some()).nth(index) {
            *place = None;
        }
    }

    pub(super) fn slot_mut(&mut self, index: usize) -> Option<&mut Option<Unauthenticated>> {
        self.unauthenticated.get_mut(index)
    }
}

/// Where peers connect, namely those with lower numbers.
fn addresses(config: &Config) -> BTreeSet<Place> {
    let own = config.document.id;
    let peers = config.peers.iter().filter(|peer| peer.id < own);
    let groups = peers.flat_map(|peer| &peer.groups);
    let paths = groups.flat_map(|group| group.paths.iter().map(|path| (path, group.id)));
    paths
        .filter_map(|(path, group)| {
            let address = SocketAddr::new(path.local?, label::agent_port(own, group));
            Some((address, path.interface))
        })
        .collect()
}
