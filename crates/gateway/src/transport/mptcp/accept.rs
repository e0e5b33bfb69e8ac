//! Connections that others make: until they have said who they are.

use std::{io, net::SocketAddr, ops::ControlFlow, time::Instant};

use hawser_netdev::{mptcp::Stream, poll::Interest};
use hawser_tls::Handshake;
use hawser_wire::record::Record;

use super::{
    entrance::Stranger,
    link::{Link, LinkError},
    state::Mptcp,
    token::Token,
};
use crate::transport::Host;

/// Connections taken before others get their turn.
const ACCEPT_BUDGET: usize = 16;

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
