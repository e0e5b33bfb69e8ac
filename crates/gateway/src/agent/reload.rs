//! A new configuration for a running agent.

use std::time::Instant;

use hawser_netdev::poll::Interest;
use hawser_tls::Session;

use super::{Agent, Token};
use crate::{
    command::Apply,
    link::LinkError,
    peer::{Group, Peer},
    table::Table,
};

impl Agent {
    /// Takes on a configuration. Connections of groups that are the same in both stay.
    pub(super) fn apply(&mut self, apply: Apply, now: Instant) -> Result<(), String> {
        let Apply { config, identity } = apply;
        self.entrance.listen(&config, &self.poller).map_err(|error| error.to_string())?;
        let queue = config.document.queue_bytes as usize;
        let mut old = std::mem::take(&mut self.peers);
        for wanted in &config.peers {
            let mut peer = Peer::new(wanted.clone(), config.document.id, queue);
            if let Some(old) = old.iter_mut().find(|old| is_same_branch(old, &peer)) {
                keep_groups(old, &mut peer, queue);
            }
            self.peers.push(peer);
        }
        self.table = Table::new(config.peers.iter());
        self.places.set_policy(config.document.placement);
        self.config = config;
        self.identity = identity;
        self.rename(now);
        self.end_revoked(now);
        Ok(())
    }

    /// Whether the other end's certificate is not believed any more.
    pub(super) fn has_revoked(&self, session: &Session) -> bool {
        self.identity.as_ref().is_some_and(|own| own.has_revoked(session.certificate()))
    }

    /// Ends connections of those whose certificate has been revoked; those whose certificate has not been
    /// seen yet begin anew.
    fn end_revoked(&mut self, now: Instant) {
        if self.identity.is_none() {
            return;
        }
        for peer in 0..self.peers.len() {
            for group in 0..self.peers.get(peer).map_or(0, |peer| peer.groups.len()) {
                let place = self.peers.get(peer).and_then(|peer| peer.groups.get(group));
                let Some(link) = place.and_then(|place| place.link.as_ref()) else { continue };
                if link.session().is_none_or(|session| self.has_revoked(session)) {
                    let why = LinkError::Stranger("its certificate may have been revoked".into());
                    self.settle(peer, group, Err(why), now);
                }
            }
        }
    }

    /// Peers and groups may have new places: tells the poller.
    fn rename(&mut self, now: Instant) {
        for peer in 0..self.peers.len() {
            for group in 0..self.peers.get(peer).map_or(0, |peer| peer.groups.len()) {
                let place = self.peers.get(peer).and_then(|peer| peer.groups.get(group));
                let Some(link) = place.and_then(|place| place.link.as_ref()) else { continue };
                let interest =
                    if link.waits_to_write { Interest::ReadWrite } else { Interest::Read };
                let token = Token::Group(peer, group).pack();
                let result = self.poller.modify(&link.stream, token, interest);
                self.settle(peer, group, result.map_err(LinkError::from), now);
            }
        }
    }
}

fn is_same_branch(old: &Peer, new: &Peer) -> bool {
    (&old.config.branch, old.config.id) == (&new.config.branch, new.config.id)
}

/// Takes over the groups whose paths have not changed; the others begin anew.
fn keep_groups(old: &mut Peer, new: &mut Peer, queue: usize) {
    for group in &mut new.groups {
        let same = |old: &Group| old.config == group.config;
        if let Some(index) = old.groups.iter().position(same) {
            *group = old.groups.swap_remove(index);
            group.queue.set_limit(queue);
        }
    }
}
