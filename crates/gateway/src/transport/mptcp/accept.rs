//! Connections that others make: until they have said who they are.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::SocketAddr,
    ops::ControlFlow,
    time::Instant,
};

use hawser_netdev::{
    mptcp::{Listener, Stream},
    poll::{Interest, Poller},
};
use hawser_tls::Handshake;
use hawser_tunnel::counters::StrangerCounters;
use hawser_wire::{label, record::Record};

use super::{
    Mptcp, Token,
    connection::OPENING,
    link::{Link, LinkError},
};
use crate::{config::Config, transport::Host};

/// Connections that have not said yet who they are, at most.
const MAX_STRANGERS: usize = 64;

/// Connections taken before others get their turn.
const ACCEPT_BUDGET: usize = 16;

/// Sockets that listen, and connections of others that have not said who they are.
#[derive(Default)]
pub(super) struct Entrance {
    listeners: BTreeMap<SocketAddr, (usize, Listener)>,
    next_listener: usize,
    strangers: Vec<Option<Stranger>>,
}

struct Stranger {
    link: Link,
    address: SocketAddr,
    since: Instant,
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
    fn vacancy(&mut self) -> Option<usize> {
        let free = self.strangers.iter().position(Option::is_none);
        free.or_else(|| {
            let index = self.strangers.len();
            (index < MAX_STRANGERS).then(|| {
                self.strangers.push(None);
                index
            })
        })
    }

    fn place(&mut self, index: usize) -> Option<&mut Option<Stranger>> {
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
        .map(|(local, group)| SocketAddr::new(local, label::port(own, group)))
        .collect()
}

/// Who a connection says it is from.
struct Introduction {
    branch: String,
    id: u16,
    group: u8,
}

impl Mptcp {
    /// Takes connections.
    pub(super) fn accept(&mut self, host: &mut Host, number: usize, now: Instant) {
        for _ in 0..ACCEPT_BUDGET {
            let mut listeners = self.entrance.listeners.values();
            let Some((_, listener)) = listeners.find(|(index, _)| *index == number) else { return };
            match listener.accept() {
                Ok((stream, address)) => self.admit(host, stream, address, now),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    // Such as a connection that has gone again, or too many open files.
                    tracing::debug!(%error, "accept");
                    return;
                }
            }
        }
    }

    /// Lets a connection in as far as to say who it is from.
    fn admit(&mut self, host: &Host, stream: Stream, address: SocketAddr, now: Instant) {
        let encrypted = self.identity.is_some();
        if !encrypted && !self.peers.iter().any(|peer| peer.has_remote(address.ip())) {
            self.strangers.foreign_address += 1;
            return;
        }
        let Some(index) = self.entrance.vacancy() else {
            self.strangers.too_many += 1;
            return;
        };
        match self.stranger(host, stream, address, index, now) {
            Ok(stranger) => {
                if let Some(place) = self.entrance.place(index) {
                    *place = Some(stranger);
                }
            }
            Err(error) => self.strangers.count(error.cause()),
        }
    }

    fn stranger(
        &self,
        host: &Host,
        stream: Stream,
        address: SocketAddr,
        index: usize,
        now: Instant,
    ) -> Result<Stranger, LinkError> {
        stream.tune(&self.tuning)?;
        let handshake = self.identity.as_ref().map(Handshake::server).transpose()?;
        host.poller.add(&stream, Token::Stranger(index).pack(), Interest::Read)?;
        Ok(Stranger { link: Link::accepted(stream, handshake, now), address, since: now })
    }

    /// Something came from a connection that has not said yet who it is from.
    pub(super) fn hear(&mut self, host: &mut Host, index: usize, now: Instant) {
        let Some(mut stranger) = self.entrance.place(index).and_then(Option::take) else { return };
        match introduction(&mut stranger.link, now).and_then(|said| match said {
            Some(said) => self.recognise(&said, &stranger).map(Some),
            None => Ok(None),
        }) {
            Ok(Some((peer, group))) => self.adopt(host, peer, group, stranger.link, now),
            Ok(None) => {
                if let Some(place) = self.entrance.place(index) {
                    *place = Some(stranger);
                }
            }
            Err(LinkError::Closed | LinkError::Io(_)) if stranger.link.heard == stranger.since => {
                self.strangers.probes += 1;
            }
            Err(error) => {
                self.strangers.count(error.cause());
                tracing::debug!(address = %stranger.address, %error, "refused");
            }
        }
    }

    /// Which peer and group a connection belongs to.
    fn recognise(&self, said: &Introduction, from: &Stranger) -> Result<(usize, usize), LinkError> {
        let Introduction { branch, id, group } = said;
        let stranger = |why: &str| {
            let Stranger { address, .. } = from;
            LinkError::Stranger(format!("{address} says it is branch {branch:?} ({id}), but {why}"))
        };
        let known =
            self.peers.iter().position(|p| p.config.branch == *branch && p.config.id == *id);
        let index = known.ok_or_else(|| stranger("there is no such peer"))?;
        let peer = self.peers.get(index).ok_or(LinkError::Removed)?;
        if peer.we_connect {
            return Err(stranger("it is for us to connect"));
        }
        match from.link.session() {
            Some(session) if !session.is_with(branch) => {
                return Err(stranger("its certificate is not that branch's"));
            }
            Some(session) if self.has_revoked(session) => {
                return Err(stranger("its certificate has been revoked"));
            }
            None if !peer.has_remote(from.address.ip()) => {
                return Err(stranger("that address is none of the branch's"));
            }
            _ => {}
        }
        let place = peer.config.groups.iter().position(|known| known.id == *group);
        let place = place.ok_or_else(|| stranger("there is no such path group"))?;
        Ok((index, place))
    }
}

/// Reads the first record, if it has come.
fn introduction(link: &mut Link, now: Instant) -> Result<Option<Introduction>, LinkError> {
    let mut said = None;
    // A handshake that has just ended may have left the first record behind: so once more.
    for _ in 0..2 {
        link.receive(now, |record| match record {
            Record::Hello(hello) => {
                let branch = hello.branch.to_owned();
                said = Some(Introduction { branch, id: hello.id.into(), group: hello.group });
                Ok(ControlFlow::Break(()))
            }
            _ => Err(LinkError::Protocol("the first record is not a hello")),
        })?;
        if said.is_some() {
            break;
        }
    }
    Ok(said)
}
