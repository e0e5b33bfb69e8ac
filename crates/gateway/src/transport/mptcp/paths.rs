//! Subflows: probed, joined and closed as the path manager decides.

use std::{
    io,
    net::SocketAddr,
    time::{Duration, Instant},
};

use hawser_netdev::mptcp::{Manager, Probe};
use hawser_tunnel::Peer;
use hawser_wire::label;

use super::{
    group::{Group, ends},
    path_manager::Action,
    state::Mptcp,
};

/// Polling interval while nothing is in flight.
const IDLE_INTERVAL: Duration = Duration::from_millis(500);

impl Mptcp {
    /// Polls the subflows of a group's connection and performs the resulting actions.
    pub(super) fn manage_subflows(&mut self, peer: usize, group: usize, now: Instant) {
        let Some(Peer { config, groups, we_connect, .. }) = self.peers.get_mut(peer) else {
            return;
        };
        let Some(place) = groups.get_mut(group).filter(|place| place.up) else { return };
        let Some(link) = place.link.as_ref() else { return };
        if !place.path_manager.is_due(now, link.last_sent, IDLE_INTERVAL) {
            return;
        }
        let Some(subflows) = link.stream.subflows() else { return };
        let mut actions = place.path_manager.poll(now, &subflows, *we_connect);
        actions.extend(place.poll_probes(now));
        let Some(manager) = &self.manager else { return };
        let port = label::agent_port(config.id, place.config.id);
        for action in actions {
            let done = place.perform(manager, port, action);
            let (peer, group) = (&config.branch, place.config.id);
            match done {
                Ok(()) => tracing::debug!(peer, group, ?action, "subflow"),
                // Such as a subflow that has just ended. Without a route, the probe counts as
                // unanswered.
                Err(error) => tracing::debug!(peer, group, ?action, %error, "subflow"),
            }
        }
    }

    /// Subflows have changed somewhere: polls all connections soon.
    pub(super) fn on_subflow_event(&mut self) {
        if let Some(manager) = &self.manager {
            manager.clear();
        }
        for group in self.peers.groups_mut() {
            group.path_manager.poll_soon();
        }
    }
}

impl Group {
    /// Actions that follow from probes that have been answered.
    fn poll_probes(&mut self, now: Instant) -> Vec<Action> {
        let (path_manager, mut actions) = (&mut self.path_manager, Vec::new());
        self.probes.retain(|(member, probe)| {
            let Some(reached) = probe.reached() else { return true };
            actions.extend(path_manager.answered(now, *member, reached));
            false
        });
        actions
    }

    /// Performs one action, with subflows to this port.
    fn perform(&mut self, manager: &Manager, port: u16, action: Action) -> io::Result<()> {
        let Some(link) = &self.link else { return Ok(()) };
        let token = link.stream.token();
        let path = |member: usize| self.config.paths.get(member).and_then(ends);
        match action {
            Action::Close(ends) => manager.destroy(token?, ends),
            Action::Probe(member) => {
                let Some((local, remote)) = path(member) else { return Ok(()) };
                self.probes.retain(|(other, _)| *other != member);
                let probe = Probe::begin(local, SocketAddr::new(remote, port))?;
                self.probes.push((member, probe));
                Ok(())
            }
            Action::Join(member) => {
                let Some((local, remote)) = path(member) else { return Ok(()) };
                let id = self.address_id(local.address);
                manager.create(token?, id, local, SocketAddr::new(remote, port))
            }
        }
    }
}
