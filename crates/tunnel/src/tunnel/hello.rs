//! Hello exchange at the start of a connection.

use std::time::Instant;

use hawser_wire::tunnel::Hello;
use quinn_proto::ConnectionHandle;

use super::{endpoint::Purpose, event::Event, state::Tunnel};
use crate::{
    path::{PathId, PeerHello, REFUSED},
    proxy::Stream,
};

type At = (usize, ConnectionHandle);

impl<S: Stream> Tunnel<S> {
    /// The client sends its hello first.
    pub(super) fn connected(&mut self, at: At) {
        if let Some(id) = self.link_mut(at).and_then(|link| link.id) {
            self.send_hello(at, id);
        }
    }

    fn send_hello(&mut self, at: At, id: PathId) {
        let PathId { peer, group, member } = id;
        let Some(session) = self.peers.group_mut(peer, group).map(|group| group.session) else {
            return;
        };
        let proxy = self.proxy.as_ref().map(|proxy| proxy.own);
        let branch = self.config.branch.clone();
        let (id, abilities) = (self.config.id, self.settings.abilities());
        if let Some(link) = self.link_mut(at) {
            let abilities = link.wire_version().filter(|version| *version >= 3).map(|_| abilities);
            let hello = Hello { id, group, member, session, abilities, proxy, branch: &branch };
            link.send_hello(&hello);
        }
    }

    /// Reads the peer's hello and acts on it.
    pub(super) fn read_hello(&mut self, at: At, now: Instant) {
        let Some(link) = self.link_mut(at) else { return };
        let (is_client, known, hello) = (link.is_client, link.id, link.read_hello());
        let checked = match hello {
            Some(Ok(hello)) => self.check(at, hello, known),
            Some(Err(error)) => Err(error),
            None => return,
        };
        match checked {
            Ok(hello) => {
                if !is_client {
                    self.send_hello(at, hello.id);
                }
                self.adopt(at, hello, now);
            }
            Err(error) => {
                self.unauthenticated.identity_mismatch += 1;
                if let Some(link) = self.link_mut(at) {
                    link.connection.close(now, REFUSED, error.clone().into());
                }
                self.events.push_back(Event::Refused(error));
            }
        }
    }

    /// Whether the peer is the one expected on this path.
    fn check(
        &mut self,
        at: At,
        hello: PeerHello,
        known: Option<PathId>,
    ) -> Result<PeerHello, String> {
        let PathId { peer: id, group, member } = hello.id;
        let identity = self.settings.identity().clone();
        if self.link_mut(at).is_some_and(|link| link.is_distrusted(&identity, &hello.branch)) {
            return Err("its certificate is not valid any more".to_owned());
        }
        let peer = self.peers.by_id(id).filter(|peer| peer.config.branch == hello.branch);
        let peer = peer.ok_or_else(|| format!("there is no peer {:?} ({id})", hello.branch))?;
        let paths = peer.group(group).map_or(0, |known| known.members.len());
        if usize::from(member) >= paths {
            return Err(format!("{:?} has no path {member} in group {group}", hello.branch));
        }
        let purpose = self.endpoints.get(&at.0).map(|endpoint| endpoint.socket.purpose);
        match (known, purpose) {
            (Some(known), _) if known == hello.id => Ok(hello),
            (None, Some(Purpose::Listener { group: own })) if own == group && !peer.we_connect => {
                Ok(hello)
            }
            (None, Some(Purpose::Responder { path, .. } | Purpose::Relayed { path }))
                if path == hello.id && !peer.we_connect =>
            {
                Ok(hello)
            }
            _ => Err(format!("{:?} is not expected on this path", hello.branch)),
        }
    }
}
