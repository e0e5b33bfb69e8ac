//! The gateway's switch: eBPF programs on the WAN ports, and the tasks they leave to user space.

mod counters;
mod errors;
mod flows;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::Context;
use hawser_bpf::switch as bpf;
use hawser_daemon::failure::Failure;
use hawser_netdev::{
    interface,
    namespace::{self, Lock},
    poll::{Interest, Poller, Waker},
};

pub(super) use self::counters::{SwitchCounters, register};
use self::{
    errors::Returns,
    flows::{Flows, Names},
};
use super::config::{Config, switch as config};

/// Interval at which own addresses are checked and the ICMP budget is renewed.
const TICK: Duration = Duration::from_secs(1);

/// ICMP errors sent per tick (RFC 1812 section 4.3.2.8).
const ICMP_BUDGET: u32 = 100;

/// Events handled before the lock is released.
const EVENTS: usize = 256;

/// Lock that allows one switch per network namespace: a new one replaces the programs of a dead
/// one.
const LOCK: &str = "hawser-switch";

/// A gateway's switch, if it has one.
#[derive(Clone, Default)]
pub(super) struct Switch(Arc<Mutex<Option<Running>>>);

/// A switch attached to its ports until dropped.
struct Running {
    shared: Arc<Mutex<Shared>>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
    interfaces: BTreeSet<String>,
    _lock: Lock,
}

/// State shared by thread and API.
struct Shared {
    programs: bpf::Switch,
    names: Names,
    returns: Returns,
    own: BTreeMap<IpAddr, bool>,
    ports: Vec<(IpAddr, bool)>,
    stopping: bool,
}

/// A resolved configuration.
pub(super) struct Prepared(Option<Flows>);

impl Switch {
    /// Starts the switch of a configuration.
    pub(super) fn start(config: &Config) -> Result<Self, Failure> {
        let this = Self::default();
        let prepared = Self::prepare(config)?;
        this.commit(prepared)?;
        Ok(this)
    }

    /// Checks that a configuration can be applied: its interfaces exist.
    pub(super) fn prepare(config: &Config) -> anyhow::Result<Prepared> {
        let section = config.switch.as_ref();
        let section = section.filter(|section| section.kind == config::SwitchKind::Bpf);
        let nat = config.classifier.is_some();
        section.map(|section| Flows::resolve(section, nat)).transpose().map(Prepared)
    }

    /// Applies it atomically: each packet meets the old set of entries or the new one.
    pub(super) fn commit(&self, prepared: Prepared) -> anyhow::Result<()> {
        let mut place = lock(&self.0);
        match (prepared.0, place.as_mut()) {
            (None, _) => *place = None,
            (Some(flows), Some(running)) => running.change(flows)?,
            (Some(flows), None) => *place = Some(Running::start(flows)?),
        }
        Ok(())
    }

    /// Its counters; none if this gateway runs no switch.
    pub(super) fn counters(&self) -> anyhow::Result<Option<SwitchCounters>> {
        let place = lock(&self.0);
        let Some(running) = place.as_ref() else { return Ok(None) };
        let shared = lock(&running.shared);
        let read = |index| shared.programs.count(index);
        let entries = shared.names.counters(read).context("switch counters")?;
        let drops = shared.programs.drops().context("switch counters")?;
        Ok(Some(SwitchCounters { entries, drops: drops.into() }))
    }

    /// Detaches the programs from the ports.
    pub(super) fn stop(&self) {
        *lock(&self.0) = None;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Running {
    fn start(flows: Flows) -> anyhow::Result<Self> {
        let held = namespace::lock(LOCK).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => {
                anyhow::anyhow!("another gateway has a switch in this network namespace")
            }
            _ => error.into(),
        })?;
        for interface in interface::names().context("interfaces")? {
            if !flows.interfaces.contains(&interface) {
                bpf::detach(&interface).with_context(|| format!("interface {interface}"))?;
            }
        }
        let mut programs = bpf::Switch::load().context("switch")?;
        let events = programs.take_events().context("switch")?;
        let (names, returns) = (Names::default(), Returns::default());
        let (own, ports) = (BTreeMap::new(), Vec::new());
        let shared = Shared { programs, names, returns, own, ports, stopping: false };
        let shared = Arc::new(Mutex::new(shared));
        let waker = Waker::new()?;
        let thread = thread::Builder::new().name("switch".into()).spawn({
            let (shared, waker) = (Arc::clone(&shared), waker.clone());
            move || {
                if let Err(error) = attend(&shared, &waker, events) {
                    tracing::error!(%error, "ICMP errors are no longer translated");
                }
            }
        })?;
        let interfaces = BTreeSet::new();
        let mut this = Self { shared, waker, thread: Some(thread), interfaces, _lock: held };
        this.change(flows)?;
        Ok(this)
    }

    fn change(&mut self, flows: Flows) -> anyhow::Result<()> {
        let mut shared = lock(&self.shared);
        let (names, entries, fresh) = shared.names.assign(&flows.entries)?;
        for index in fresh {
            shared.programs.clear(index).context("switch counters")?;
        }
        shared.ports = flows.addresses;
        shared.refresh().context("own addresses")?;
        shared.programs.install(&entries).context("switch entries")?;
        shared.names = names;
        shared.returns = returns_of(&entries);
        for interface in flows.interfaces.difference(&self.interfaces) {
            shared.programs.attach(interface).with_context(|| format!("interface {interface}"))?;
        }
        for interface in self.interfaces.difference(&flows.interfaces) {
            bpf::detach(interface).with_context(|| format!("interface {interface}"))?;
        }
        self.interfaces = flows.interfaces;
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        lock(&self.shared).stopping = true;
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        for interface in &self.interfaces {
            if let Err(error) = bpf::detach(interface) {
                tracing::warn!(interface, %error, "cannot detach the switch");
            }
        }
    }
}

impl Shared {
    /// Tells the programs the gateway's own addresses, and where NAT is used.
    fn refresh(&mut self) -> anyhow::Result<()> {
        let own = interface::addresses()?.into_iter().map(|address| (address, false));
        let own = own.chain(self.ports.iter().copied()).collect();
        if own != self.own {
            self.programs.set_own(&own)?;
            self.own = own;
        }
        Ok(())
    }
}

/// Sends and translates ICMP errors until told to stop.
fn attend(shared: &Mutex<Shared>, waker: &Waker, mut events: bpf::Events) -> io::Result<()> {
    let (mut poller, mut ready) = (Poller::new()?, Vec::new());
    poller.add(waker, 0, Interest::Read)?;
    poller.add(&events, 1, Interest::Read)?;
    let (mut budget, mut next_tick) = (ICMP_BUDGET, Instant::now() + TICK);
    loop {
        let wait = next_tick.saturating_duration_since(Instant::now());
        poller.wait(wait, &mut ready)?;
        let mut shared = lock(shared);
        if shared.stopping {
            return Ok(());
        }
        if Instant::now() >= next_tick {
            (budget, next_tick) = (ICMP_BUDGET, Instant::now() + TICK);
            if let Err(error) = shared.refresh() {
                tracing::warn!(%error, "own addresses");
            }
        }
        for _ in 0..EVENTS {
            let answer =
                |event: bpf::Event<'_>| errors::answer(event, &shared.returns, &mut budget);
            if events.next(answer).is_none() {
                break;
            }
        }
    }
}

/// Entries of the return direction.
fn returns_of(entries: &[bpf::Flow]) -> Returns {
    let from_wan = entries.iter().filter(|flow| flow.from == bpf::From::Wan);
    from_wan.map(|flow| (flow.key, (flow.write, flow.output))).collect()
}
