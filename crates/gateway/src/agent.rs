//! The multipath agent: one event loop for TUN device, control API and transport
//! (docs/design/gateway.md).

use std::{
    io,
    time::{Duration, Instant},
};

use hawser_netdev::{
    interface::local_destinations,
    poll::{Interest, Poller},
    tun::Tun,
};
use hawser_tls::Identity;
use hawser_tunnel::{Reach, counters::TunCounters};

use crate::{
    command::{Apply, Command, Inbox},
    config::Config,
    locate::Locator,
    status::{Counters, PeerStatus, Status, WaitingPath},
    transport::{Host, Transport},
};

/// Poller tokens of the loop itself; those of transports are lower.
const TUN: u64 = u64::MAX;
const INBOX: u64 = u64::MAX - 1;
const ADDRESSES: u64 = u64::MAX - 4;

/// Interval at which the gateway's own addresses are read.
const ADDRESS_INTERVAL: Duration = Duration::from_secs(1);

/// State of the event loop.
pub(crate) struct Agent<T> {
    started: Instant,
    host: Host,
    transport: T,
    locator: Locator,
    inbox: Inbox,
    stopping: bool,
    next_address_check: Instant,
}

impl<T: Transport> Agent<T> {
    /// Takes over a TUN device; `make` creates the transport, without peers.
    pub(crate) fn new(
        config: &Config,
        identity: Option<&Identity>,
        (tun, inbox): (Tun, Inbox),
        make: impl FnOnce(&Host) -> io::Result<T>,
    ) -> io::Result<Self> {
        let poller = Poller::new()?;
        poller.add(&tun, TUN, Interest::Read)?;
        poller.add(&inbox.waker, INBOX, Interest::Read)?;
        let locator = Locator::new(inbox.waker.clone())?;
        poller.add(&locator, ADDRESSES, Interest::Read)?;
        let host = Host {
            config: Config { peers: Vec::new(), ..config.clone() },
            tun,
            poller,
            device: TunCounters::default(),
            reach: Reach::default(),
        };
        let (transport, started) = (make(&host)?, Instant::now());
        let mut this = Self {
            started,
            host,
            transport,
            locator,
            inbox,
            stopping: false,
            next_address_check: started,
        };
        this.configure(config.clone(), identity, started)?;
        Ok(this)
    }

    /// MTU for the TUN device.
    pub(crate) fn mtu(&self) -> u16 {
        self.transport.mtu(&self.host.config)
    }

    /// Runs the loop until told to stop.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let mut ready = Vec::new();
        while !self.stopping {
            let now = Instant::now();
            let wake = self.transport.poll_timeout(now).min(self.locator.poll_timeout());
            self.host.poller.wait(wake.saturating_duration_since(now), &mut ready)?;
            let now = Instant::now();
            for event in &ready {
                match event.token {
                    TUN => self.transport.handle_device(&mut self.host, now)?,
                    INBOX => self.handle_commands(now),
                    ADDRESSES => {
                        self.locator.handle_event(now);
                        self.next_address_check = now;
                    }
                    _ => self.transport.handle_ready(&mut self.host, *event, now),
                }
            }
            self.locate_paths(now);
            self.transport.advance(&mut self.host, now);
            self.read_addresses(now);
        }
        self.transport.close(&mut self.host, Instant::now());
        Ok(())
    }

    /// Lets paths follow their addresses.
    fn locate_paths(&mut self, now: Instant) {
        let mut again = false;
        if self.locator.is_tick(now) {
            self.locator.tick(&self.transport.silent_paths(now), now);
            again = !self.transport.problems().is_empty();
        }
        let moved = self.locator.handle_timeout(&mut self.host.config.peers, now);
        if moved || again {
            self.transport.relocate(&mut self.host, now);
        }
    }

    /// Executes the commands of the control API.
    fn handle_commands(&mut self, now: Instant) {
        self.inbox.waker.clear();
        self.locator.handle_answers(now);
        while let Some(command) = self.inbox.next() {
            // The client may have gone away; its reply is then dropped.
            match command {
                Command::Status(reply) => drop(reply.send(self.status(now))),
                Command::Counters(reply) => drop(reply.send(self.counters())),
                Command::Apply(apply, reply) => drop(reply.send(self.apply(*apply, now))),
                Command::Train(request, reply) => self.transport.start_train(*request, reply, now),
                Command::Stop => self.stopping = true,
            }
        }
    }

    fn apply(&mut self, apply: Apply, now: Instant) -> Result<(), String> {
        let Apply { config, identity } = apply;
        self.configure(config, identity.as_ref(), now).map_err(|error| error.to_string())
    }

    fn configure(
        &mut self,
        mut config: Config,
        identity: Option<&Identity>,
        now: Instant,
    ) -> io::Result<()> {
        self.locator.configure(&mut config, now);
        let useful = self.check_usable(&config);
        let done =
            useful.and_then(|()| self.transport.configure(&mut self.host, &config, identity, now));
        if let Err(error) = done {
            self.locator.configure(&mut self.host.config, now);
            return Err(error);
        }
        self.transport.reach(&mut self.host).set(config.permissions.clone());
        config.warn();
        self.host.config = config;
        self.next_address_check = now;
        self.read_addresses(now);
        Ok(())
    }

    /// Reads the gateway's addresses, which peers reach only as far as services are open.
    fn read_addresses(&mut self, now: Instant) {
        if now < self.next_address_check || self.host.config.permissions.local.is_none() {
            return;
        }
        self.next_address_check = now + ADDRESS_INTERVAL;
        match local_destinations() {
            Ok(own) => self.transport.reach(&mut self.host).set_own(own),
            Err(error) => tracing::warn!(%error, "cannot read the gateway's addresses"),
        }
    }

    /// Refuses a configuration none of whose paths can be used, if one can at present: its addresses
    /// are more likely wrong than late.
    fn check_usable(&self, new: &Config) -> io::Result<()> {
        let usable = |config: &Config| {
            let mut groups = config.peers.iter().flat_map(|peer| &peer.groups);
            groups.any(|group| group.paths.iter().any(|path| path.local.is_some()))
        };
        if new.peers.is_empty() || usable(new) || !usable(&self.host.config) {
            return Ok(());
        }
        let why = self.locator.first_reason().unwrap_or_default();
        Err(io::Error::other(format!("none of its paths could be used: {why}")))
    }

    fn status(&self, now: Instant) -> Status {
        let mut peers = self.transport.status(now);
        self.add_waiting(&mut peers);
        Status::new(&self.host.config, now - self.started, self.host.tun.offload(), peers)
    }

    /// Adds the paths that cannot be used at present.
    fn add_waiting(&self, status: &mut [PeerStatus]) {
        let problems = self.transport.problems();
        for (peer, config) in status.iter_mut().zip(&self.host.config.peers) {
            for (group, of) in peer.groups.iter_mut().zip(&config.groups) {
                let waiting = |(member, reason): (u8, &str)| WaitingPath {
                    member,
                    reason: reason.to_owned(),
                };
                group.waiting.extend(self.locator.waiting(config.id, of.id).map(waiting));
                for (member, path) in (0..).zip(&of.paths) {
                    let problem = problems.iter().find(|(local, _)| path.local == Some(*local));
                    if let Some((_, reason)) = problem {
                        group.waiting.push(WaitingPath { member, reason: reason.clone() });
                    }
                }
            }
        }
    }

    fn counters(&self) -> Counters {
        let unauthenticated = self.transport.unauthenticated();
        let peers = self.transport.counters();
        Counters { tun: self.host.device, unauthenticated, peers, switch: None, wan: None }
    }
}
