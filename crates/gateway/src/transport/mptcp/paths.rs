//! Subflows of the connections: made, watched, closed.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use hawser_netdev::mptcp::{Ends, Manager, Probe};
use hawser_tunnel::{Peer, config};
use hawser_wire::label;

use super::{group::Group, state::Mptcp, watch::Step};

/// A connection on which nothing is under way is looked at this often.
const LEISURE: Duration = Duration::from_millis(500);

impl Mptcp {
    /// Looks at the subflows of a group's connection, and does what is to be done about them.
    pub(super) fn watch(&mut self, peer: usize, group: usize, now: Instant) {
        let Some(Peer { config, groups, we_connect, .. }) = self.peers.get_mut(peer) else {
            return;
        };
        let Some(place) = groups.get_mut(group).filter(|place| place.up) else { return };
        let Some(link) = place.link.as_ref() else { return };
        if !place.watch.is_due(now, link.said, LEISURE) {
            return;
        }
        let Some(subflows) = link.stream.subflows() else { return };
        let mut steps = place.watch.look(now, &subflows, *we_connect);
        steps.extend(place.answers(now));
        let Some(manager) = &self.manager else { return };
        let port = label::agent_port(config.id, place.config.id);
        for step in steps {
            let done = place.take(manager, port, step);
            let (peer, group) = (&config.branch, place.config.id);
            match done {
                Ok(()) => tracing::debug!(peer, group, ?step, "subflow"),
                // Such as one that has just ended; or there is no way, which counts as no answer.
                Err(error) => tracing::debug!(peer, group, ?step, %error, "subflow"),
            }
        }
    }

    /// Subflows have come or gone somewhere: looks at all.
    pub(super) fn hear_news(&mut self) {
        if let Some(manager) = &self.manager {
            manager.clear();
        }
        for group in self.peers.groups_mut() {
            group.watch.hurry();
        }
    }
}

impl Group {
    /// What the probes that have been answered lead to.
    fn answers(&mut self, now: Instant) -> Vec<Step> {
        let (watch, mut steps) = (&mut self.watch, Vec::new());
        self.probes.retain(|(member, probe)| {
            let Some(reached) = probe.reached() else { return true };
            steps.extend(watch.answered(now, *member, reached));
            false
        });
        steps
    }

    /// Does one step, with subflows to this port.
    fn take(&mut self, manager: &Manager, port: u16, step: Step) -> io::Result<()> {
        let Some(link) = &self.link else { return Ok(()) };
        let paths = &self.config.paths;
        match step {
            Step::Close(ends) => manager.destroy(link.stream.token()?, ends),
            Step::Probe(member) => {
                let Some(path) = paths.get(member) else { return Ok(()) };
                self.probes.retain(|(other, _)| *other != member);
                let remote = SocketAddr::new(path.remote, port);
                self.probes.push((member, Probe::begin(path.local, remote)?));
                Ok(())
            }
            Step::Join(member) => {
                let Some(path) = paths.get(member) else { return Ok(()) };
                let local = SocketAddr::new(path.local, 0);
                let ends = Ends { local, remote: SocketAddr::new(path.remote, port) };
                manager.create(link.stream.token()?, number(paths, path.local), ends)
            }
        }
    }
}

/// The number by which MPTCP knows an own address: from 1.
fn number(paths: &[config::Path], local: IpAddr) -> u8 {
    let first = paths.iter().position(|path| path.local == local).unwrap_or(0);
    u8::try_from(first + 1).unwrap_or(u8::MAX)
}
