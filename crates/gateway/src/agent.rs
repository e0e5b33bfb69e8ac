//! The multipath agent: one event loop for TUN device, control API and transport
//! (docs/design/gateway.md).

use std::{io, time::Instant};

use hawser_netdev::{
    poll::{Interest, Poller},
    tun::Tun,
};
use hawser_tls::Identity;
use hawser_tunnel::counters::TunCounters;

use crate::{
    command::{Apply, Command, Inbox},
    config::Config,
    status::{Counters, Status},
    transport::{Host, Transport},
};

/// Poller tokens of the loop itself; those of transports are lower.
const TUN: u64 = u64::MAX;
const INBOX: u64 = u64::MAX - 1;

/// State of the event loop.
pub(crate) struct Agent<T> {
    started: Instant,
    host: Host,
    transport: T,
    inbox: Inbox,
    stopping: bool,
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
        let host = Host { config: config.clone(), tun, poller, device: TunCounters::default() };
        let (transport, started) = (make(&host)?, Instant::now());
        let mut this = Self { started, host, transport, inbox, stopping: false };
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
            let wake = self.transport.poll_timeout(now);
            self.host.poller.wait(wake.saturating_duration_since(now), &mut ready)?;
            let now = Instant::now();
            for event in &ready {
                match event.token {
                    TUN => self.transport.handle_device(&mut self.host, now)?,
                    INBOX => self.handle_commands(now),
                    _ => self.transport.handle_ready(&mut self.host, *event, now),
                }
            }
            self.transport.advance(&mut self.host, now);
        }
        self.transport.close(&mut self.host, Instant::now());
        Ok(())
    }

    /// Executes the commands of the control API.
    fn handle_commands(&mut self, now: Instant) {
        self.inbox.waker.clear();
        while let Some(command) = self.inbox.next() {
            // The client may have gone away; its reply is then dropped.
            match command {
                Command::Status(reply) => drop(reply.send(self.status(now))),
                Command::Counters(reply) => drop(reply.send(self.counters())),
                Command::Apply(apply, reply) => drop(reply.send(self.apply(*apply, now))),
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
        config: Config,
        identity: Option<&Identity>,
        now: Instant,
    ) -> io::Result<()> {
        self.transport.configure(&mut self.host, &config, identity, now)?;
        self.host.config = config;
        Ok(())
    }

    fn status(&self, now: Instant) -> Status {
        let branch = self.host.config.document.branch.clone();
        let peers = self.transport.status(now);
        Status::new(branch, now - self.started, self.host.tun.offload(), peers)
    }

    fn counters(&self) -> Counters {
        let unauthenticated = self.transport.unauthenticated();
        let peers = self.transport.counters();
        Counters { tun: self.host.device, unauthenticated, peers, switch: None }
    }
}
