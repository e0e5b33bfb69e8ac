//! Incoming connections until they have been authenticated.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    ops::ControlFlow,
    time::Instant,
};

use hawser_netdev::{mptcp::Stream, poll::Interest};
use hawser_tls::{self as tls, Handshake};
use hawser_tunnel::{Candidate, Verdict, judge};
use hawser_wire::record::Record;

use super::{
    link::{Link, LinkError},
    listeners::Unauthenticated,
    state::Mptcp,
    token::Token,
};
use crate::transport::Host;

/// Connections accepted per turn.
const ACCEPT_BUDGET: usize = 16;

/// Identity claimed by a hello.
struct ClaimedIdentity {
    branch: String,
    id: u16,
    group: u8,
}

impl Mptcp {
    /// Accepts connections.
    pub(super) fn accept(&mut self, host: &mut Host, number: usize, now: Instant) {
        for _ in 0..ACCEPT_BUDGET {
            let mut listeners = self.listeners.sockets.values();
            let Some((_, listener)) = listeners.find(|(index, _)| *index == number) else { return };
            match listener.accept() {
                Ok((stream, address)) => self.admit(host, stream, address, now),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    // Such as a connection already reset, or too many open files.
                    tracing::debug!(%error, "accept");
                    return;
                }
            }
        }
    }

    /// Admits a connection up to its hello.
    fn admit(&mut self, host: &Host, stream: Stream, address: SocketAddr, now: Instant) {
        let encrypted = self.identity.is_some();
        if !encrypted && !self.peers.iter().any(|peer| peer.has_remote(address.ip())) {
            self.unauthenticated.foreign_address += 1;
            return;
        }
        // TCP's handshake has proved the address.
        let attempt = Candidate { source: address.ip(), validated: true };
        match judge(attempt, self.listeners.pending(), |from| self.peers.paths_from(from)) {
            Verdict::Accept | Verdict::Retry => {}
            Verdict::Replace(place) => {
                self.listeners.drop_pending(place);
                self.unauthenticated.too_many += 1;
            }
            Verdict::TooMany => return self.unauthenticated.too_many += 1,
            Verdict::TooManyFromSource => return self.unauthenticated.too_many_from_source += 1,
        }
        let index = self.listeners.free_slot();
        match self.begin(host, stream, address, index, now) {
            Ok(connection) => {
                if let Some(place) = self.listeners.slot_mut(index) {
                    *place = Some(connection);
                }
            }
            Err(error) => self.unauthenticated.count(error.cause()),
        }
    }

    /// Starts the handshake of an admitted connection.
    fn begin(
        &self,
        host: &Host,
        stream: Stream,
        address: SocketAddr,
        index: usize,
        now: Instant,
    ) -> Result<Unauthenticated, LinkError> {
        stream.tune(&self.tuning)?;
        let handshake = self.identity.as_ref().map(Handshake::server).transpose()?;
        host.poller.add(&stream, Token::Unauthenticated(index).pack(), Interest::Read)?;
        Ok(Unauthenticated { link: Link::accepted(stream, handshake, now), address, since: now })
    }

    /// An unauthenticated connection is readable.
    pub(super) fn read_hello(&mut self, host: &mut Host, index: usize, now: Instant) {
        let Some(mut connection) = self.listeners.slot_mut(index).and_then(Option::take) else {
            return;
        };
        match read_first_hello(&mut connection.link, now).and_then(|claim| match claim {
            Some(claim) => self.authenticate(&claim, &connection).map(Some),
            None => Ok(None),
        }) {
            Ok(Some((peer, group))) => {
                self.note_remote(peer, group, connection.address.ip());
                self.adopt(host, peer, group, connection.link, now);
            }
            Ok(None) => {
                if let Some(place) = self.listeners.slot_mut(index) {
                    *place = Some(connection);
                }
            }
            Err(LinkError::Closed | LinkError::Io(_))
                if connection.link.last_received == connection.since =>
            {
                self.unauthenticated.probes += 1;
            }
            Err(error) => {
                self.unauthenticated.count(error.cause());
                tracing::debug!(address = %connection.address, %error, "refused");
            }
        }
    }

    /// Keeps a place for a peer that comes from this address again. A connection belongs to no path
    /// in particular: it stands for the first.
    fn note_remote(&mut self, peer: usize, group: usize, address: IpAddr) {
        let Some(config) = self.peers.get(peer).map(|peer| &peer.config) else { return };
        let id = config.id;
        if let Some(group) = config.groups.get(group).map(|group| group.id) {
            self.peers.note_remote(id, group, 0, address);
        }
    }

    /// Peer and group that a connection belongs to.
    fn authenticate(
        &self,
        claim: &ClaimedIdentity,
        from: &Unauthenticated,
    ) -> Result<(usize, usize), LinkError> {
        let ClaimedIdentity { branch, id, group } = claim;
        let mismatch = |why: &str| {
            let Unauthenticated { address, .. } = from;
            LinkError::IdentityMismatch(format!(
                "{address} claims to be branch {branch:?} ({id}), but {why}"
            ))
        };
        let known =
            self.peers.iter().position(|p| p.config.branch == *branch && p.config.id == *id);
        let index = known.ok_or_else(|| mismatch("there is no such peer"))?;
        let peer = self.peers.get(index).ok_or(LinkError::Removed)?;
        if peer.we_connect {
            return Err(mismatch("this side connects to that branch"));
        }
        match from.link.session() {
            Some(session) if !session.is_with(branch) => {
                return Err(mismatch("its certificate is not that branch's"));
            }
            Some(session) if !self.accepts(session, tls::Peer::Client) => {
                return Err(mismatch("its certificate is not valid any more"));
            }
            None if !peer.has_remote(from.address.ip()) => {
                return Err(mismatch("the branch has no such address"));
            }
            _ => {}
        }
        let place = peer.config.groups.iter().position(|known| known.id == *group);
        let place = place.ok_or_else(|| mismatch("there is no such path group"))?;
        Ok((index, place))
    }
}

/// Reads the first record, if it has arrived.
fn read_first_hello(link: &mut Link, now: Instant) -> Result<Option<ClaimedIdentity>, LinkError> {
    let mut claim = None;
    // The end of the handshake may leave the first record in the buffer: read once more.
    for _ in 0..2 {
        link.receive(now, |record| match record {
            Record::Hello(hello) => {
                let branch = hello.branch.to_owned();
                claim = Some(ClaimedIdentity { branch, id: hello.id.into(), group: hello.group });
                Ok(ControlFlow::Break(()))
            }
            _ => Err(LinkError::Protocol("the first record is not a hello")),
        })?;
        if claim.is_some() {
            break;
        }
    }
    Ok(claim)
}
