//! Reconfiguration.

use std::{convert::Infallible, io, time::Instant};

use hawser_netdev::poll::Interest;
use hawser_tls::{self as tls, Identity, Session};

use super::{group::Group, link::LinkError, state::Mptcp, token::Token};
use crate::{config::Config, transport::Host};

impl Mptcp {
    pub(super) fn reconfigure(
        &mut self,
        host: &mut Host,
        config: &Config,
        identity: Option<&Identity>,
        now: Instant,
    ) -> io::Result<()> {
        self.listeners.listen(config, &host.poller)?;
        let queue = config.document.queue_bytes as usize;
        let open = |_: &_, group: &hawser_tunnel::config::Group| {
            Ok::<_, Infallible>(Group::new(group.clone(), queue))
        };
        // Dropping removed groups closes their connections.
        let Ok(_) = self.peers.reconcile(config.document.id, &config.peers, open);
        for group in self.peers.groups_mut() {
            group.queue.set_limit(queue);
            group.paths_moved(now);
        }
        self.peers.set_policy(config.document.placement);
        self.identity = identity.cloned();
        self.update_tokens(host, now);
        self.end_distrusted(host, now);
        Ok(())
    }

    /// The paths of the configuration in force have other addresses.
    pub(super) fn move_paths(&mut self, host: &mut Host, now: Instant) {
        if let Err(error) = self.listeners.listen(&host.config, &host.poller) {
            tracing::warn!(%error, "cannot listen for peers");
        }
        let open = |_: &_, group: &hawser_tunnel::config::Group| {
            Ok::<_, Infallible>(Group::new(group.clone(), 0))
        };
        let Ok(_) = self.peers.reconcile(host.config.document.id, &host.config.peers, open);
        self.peers.groups_mut().for_each(|group| group.paths_moved(now));
    }

    /// Whether a peer would still be accepted.
    pub(super) fn accepts(&self, session: &Session, peer: tls::Peer<'_>) -> bool {
        self.identity.as_ref().is_some_and(|own| own.accepts(session.chain(), peer))
    }

    /// Closes connections of peers whose certificate is not valid any more, or is not known yet.
    fn end_distrusted(&mut self, host: &mut Host, now: Instant) {
        if self.identity.is_none() {
            return;
        }
        for peer in 0..self.peers.len() {
            for group in 0..self.peers.get(peer).map_or(0, |peer| peer.groups.len()) {
                let Some(known) = self.peers.get(peer) else { continue };
                let place = known.groups.get(group).and_then(|place| place.link.as_ref());
                let Some(link) = place else { continue };
                let name = known.config.branch.as_str();
                let role =
                    if known.we_connect { tls::Peer::Server(name) } else { tls::Peer::Client };
                if link.session().is_none_or(|session| !self.accepts(session, role)) {
                    let why = "its certificate may not be valid any more".to_owned();
                    let why = LinkError::IdentityMismatch(why);
                    self.finish_io(host, peer, group, Err(why), now);
                }
            }
        }
    }

    /// Updates the poller after peers and groups may have changed their indices.
    fn update_tokens(&mut self, host: &mut Host, now: Instant) {
        for peer in 0..self.peers.len() {
            for group in 0..self.peers.get(peer).map_or(0, |peer| peer.groups.len()) {
                let place = self.peers.get(peer).and_then(|peer| peer.groups.get(group));
                let Some(link) = place.and_then(|place| place.link.as_ref()) else { continue };
                let interest = if link.wants_write { Interest::ReadWrite } else { Interest::Read };
                let token = Token::Group(peer, group).pack();
                let result = host.poller.modify(&link.stream, token, interest);
                self.finish_io(host, peer, group, result.map_err(LinkError::from), now);
            }
        }
    }
}
