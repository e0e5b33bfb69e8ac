//! Timers.

use std::time::{Duration, Instant};

use hawser_wire::tunnel::Capabilities;

use super::{
    endpoint::{Endpoint, Owner, Purpose},
    event::Event,
    relay::stand_in,
    state::Tunnel,
};
use crate::{
    group::Group,
    path::{CLOSED, Link, PathId, PathMtu, REFUSED},
    proxy::Stream,
};

/// Interval at which timers that are not urgent are checked.
const TICK: Duration = Duration::from_millis(50);

/// Time within which one of the first attempts must be answered. Later Initials come further apart
/// (RFC 9002 section 6.2.1), so a new attempt notices sooner that the peer is back.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// The same for all later attempts, for paths with an RTT of seconds. Its Initials are at most 2.4 s
/// apart, less than the pause between attempts.
const LONG_ANSWER_TIMEOUT: Duration = Duration::from_secs(6);
const SHORT_ATTEMPTS: u32 = 3;

impl<S: Stream> Tunnel<S> {
    /// When [`Self::handle_timeout`] is due.
    pub fn poll_timeout(&mut self) -> Instant {
        let ticks = self.next_tick.min(self.next_liveness_check);
        let groups = self.peers.groups_mut();
        let paths = groups.flat_map(|group| {
            [group.members.poll_timeout(), group.resequencer.poll_timeout()].into_iter().flatten()
        });
        let others = self.unowned.values_mut().filter_map(|link| link.connection.poll_timeout());
        let limits = self.limits.poll_timeout().into_iter().chain(self.rendezvous.poll_timeout());
        let limits = limits.chain(self.trains.poll_timeout());
        paths.chain(others).chain(limits).fold(ticks, Instant::min)
    }

    /// Does everything that is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        if now >= self.next_tick {
            self.tick(now);
            self.next_tick = now + TICK;
        }
        if self.rendezvous.poll_timeout().is_some_and(|at| at <= now) {
            self.open_paths(now);
        }
        if self.trains.poll_timeout().is_some_and(|at| at <= now) {
            self.run_trains(now);
        }
        let admitted = self.limits.expire(now);
        for group in self.peers.groups_mut() {
            group.active |= admitted;
            if group.members.poll_timeout().is_some_and(|at| at <= now) {
                group.links_mut().for_each(|link| run_timer(link, now));
            }
            group.expire(now, &mut self.delivered);
        }
        self.unowned.values_mut().for_each(|link| run_timer(link, now));
        if now >= self.next_liveness_check {
            let groups = self.peers.groups_mut();
            let silent = groups.filter_map(|group| group.retransmit_from_silent(now));
            self.next_liveness_check = silent.fold(now + TICK, Instant::min);
        }
    }

    /// Opens connections, probes silent paths, and closes what took too long.
    fn tick(&mut self, now: Instant) {
        self.abandon_unanswered(now);
        let mut due = Vec::new();
        for link in self.unowned.values_mut() {
            link.note_answer(now);
            if link.hello_is_late(now) {
                link.connection.close(now, REFUSED, "no hello in time".into());
                link.active = true;
            }
        }
        for (number, endpoint) in &self.endpoints {
            if let Purpose::Connector { path, .. } = endpoint.socket.purpose
                && endpoint.bound
                && endpoint.is_idle()
                && !self.config.is_met(path)
            {
                due.push((*number, path));
            }
        }
        for (number, path) in due {
            self.connect(number, path, now);
        }
        self.meet(now);
        if now >= self.next_second {
            self.next_second = now + Duration::from_secs(1);
            self.end_late_flows();
        }
        let proxied = self.proxy.is_some();
        for group in self.peers.groups_mut() {
            let tells = group.takes(Capabilities::RENDEZVOUS);
            for link in group.links_mut() {
                link.keep_alive(now);
                link.trains.expire(now);
                if tells {
                    link.tell_observed(now);
                }
            }
            group.judge_paths(now);
            group.update_mtu(now);
            if proxied {
                group.maintain_messages(now);
            }
            group.active = true;
        }
        self.peers.sweep(now, TICK);
        self.update_mtu();
    }

    /// Forgets attempts that have had no answer in time, with their endpoints: nobody is there to
    /// drain the connection with (RFC 9000 section 10.2), and it would delay the next attempt.
    fn abandon_unanswered(&mut self, now: Instant) {
        let mut late = Vec::new();
        for link in self.unowned.values().filter(|link| link.is_client && !link.is_answered()) {
            let Some(PathId { peer, group, member }) = link.id else { continue };
            let group = self.peers.by_id(peer).and_then(|peer| peer.group(group));
            let attempts = group.map_or(0, |group| group.attempts(usize::from(member)));
            let timeout =
                if attempts <= SHORT_ATTEMPTS { ANSWER_TIMEOUT } else { LONG_ANSWER_TIMEOUT };
            if now.saturating_duration_since(link.created) >= timeout {
                late.push(link.at);
            }
        }
        for at in late {
            self.unowned.remove(&at);
            self.renew_endpoint(at.0, now);
        }
    }

    /// Replaces an endpoint without connections by a new one for the same socket.
    fn renew_endpoint(&mut self, number: usize, now: Instant) {
        let Some(old) = self.endpoints.get(&number) else { return };
        let mut new = self.endpoint(old.socket, (old.max_batch, old.max_datagram), now);
        new.bound = old.bound;
        self.endpoints.insert(number, new);
    }

    /// Opens the connection of a path, if its backoff has passed.
    pub(super) fn connect(&mut self, number: usize, path: PathId, now: Instant) {
        let random = self.random();
        let Some(peer) = self.peers.by_id_mut(path.peer) else { return };
        let name = peer.config.branch.clone();
        let Some(group) = peer.group_mut(path.group) else { return };
        let Some(member) = group.members.get_mut(usize::from(path.member)) else { return };
        if !member.retry.is_due(now) {
            return;
        }
        member.retry.failed(now, random);
        let moved = |endpoint: &Endpoint| endpoint.advertised != endpoint.max_datagram;
        if self.endpoints.get(&number).is_some_and(moved) {
            self.renew_endpoint(number, now);
        }
        let model = self.settings.model(now);
        let Some(endpoint) = self.endpoints.get_mut(&number) else { return };
        let max_datagram = endpoint.max_datagram;
        let config = self.settings.client(&model, max_datagram);
        let remote = match endpoint.socket.purpose {
            Purpose::Connector { remote, .. } => remote,
            Purpose::Relayed { path } => stand_in(path),
            _ => return,
        };
        match endpoint.quic.connect(now, config, remote, &name) {
            Ok((handle, connection)) => {
                let mut link = Link::new(connection, (number, handle), model, Some(path), now);
                link.mtu = PathMtu::new(max_datagram);
                link.relayed = endpoint.is_relayed();
                endpoint.set_owner(handle, Owner::Nobody);
                self.unowned.insert(link.at, link);
            }
            Err(error) => self.events.push_back(Event::CannotConnect { peer: name, error }),
        }
    }

    /// Closes all connections; [`Self::poll_transmit`] then returns what is to be sent.
    pub fn close(&mut self, now: Instant) {
        let paths = self.peers.groups_mut().flat_map(Group::links_mut);
        for link in paths.chain(self.unowned.values_mut()) {
            link.connection.close(now, CLOSED, "the gateway is stopping".into());
            link.active = true;
        }
    }
}

fn run_timer(link: &mut Link, now: Instant) {
    if link.connection.poll_timeout().is_some_and(|at| at <= now) {
        link.connection.handle_timeout(now);
        link.active = true;
    }
}
