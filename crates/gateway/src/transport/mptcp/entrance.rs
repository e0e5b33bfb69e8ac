//! Sockets on which peers connect to us, and connections that have not said who they are.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::SocketAddr,
    time::{Duration, Instant},
};

use hawser_netdev::{
    mptcp::Listener,
    poll::{Interest, Poller},
};
use hawser_tunnel::counters::StrangerCounters;
use hawser_wire::label;

use super::{link::Link, token::Token};
use crate::config::Config;

/// A connection must stand, and both sides know each other, after this time.
pub(super) const OPENING: Duration = Duration::from_secs(5);

/// Connections that have not said yet who they are, at most.
const MAX_STRANGERS: usize = 64;

/// Sockets that listen, and connections of others that have not said who they are.
#[derive(Default)]
pub(super) struct Entrance {
    pub(super) listeners: BTreeMap<SocketAddr, (usize, Listener)>,
    next_listener: usize,
    strangers: Vec<Option<Stranger>>,
}

pub(super) struct Stranger {
    pub(super) link: Link,
    pub(super) address: SocketAddr,
    pub(super) since: Instant,
}

impl Entrance {
    /// Listens where this configuration says, and nowhere else. On an error nothing has changed.
    pub(super) fn listen(&mut self, config: &Config, poller: &Poller) -> io::Result<()> {
        let wanted = addresses(config);
        let mut new = Vec::new();
        for address in wanted.iter().filter(|address| !self.listeners.contains_key(address)) {
            let listener = Listener::bind(*address)
                .map_err(|e| io::Error::new(e.kind(), format!("listening on {address}: {e}")))?;
            let number = self.next_listener;
            poller.add(&listener, Token::Listener(number).pack(), Interest::Read)?;
            self.next_listener += 1;
            new.push((*address, (number, listener)));
        }
        self.listeners.retain(|address, _| wanted.contains(address));
        self.listeners.extend(new);
        Ok(())
    }

    /// Ends connections that took too long.
    pub(super) fn expire(&mut self, now: Instant, counters: &mut StrangerCounters) {
        for place in &mut self.strangers {
            if place.take_if(|stranger| now - stranger.since >= OPENING).is_some() {
                counters.gone += 1;
            }
        }
    }

    /// A place for one more connection.
    pub(super) fn vacancy(&mut self) -> Option<usize> {
        let free = self.strangers.iter().position(Option::is_none);
        free.or_else(|| {
            let index = self.strangers.len();
            (index < MAX_STRANGERS).then(|| {
                self.strangers.push(None);
                index
            })
        })
    }

    pub(super) fn place(&mut self, index: usize) -> Option<&mut Option<Stranger>> {
        self.strangers.get_mut(index)
    }
}

/// Own addresses and ports to which peers connect: those with a lower number than ours.
fn addresses(config: &Config) -> BTreeSet<SocketAddr> {
    let own = config.document.id;
    let peers = config.peers.iter().filter(|peer| peer.id < own);
    let groups = peers.flat_map(|peer| &peer.groups);
    groups
        .flat_map(|group| group.paths.iter().map(|path| (path.local, group.id)))
        .map(|(local, group)| SocketAddr::new(local, label::agent_port(own, group)))
        .collect()
}
