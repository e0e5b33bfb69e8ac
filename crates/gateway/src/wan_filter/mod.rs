//! The WAN filter: nftables rules by which WAN interfaces take only what the gateway asked for
//! (docs/design/wan-filter.md).

mod counters;
mod rules;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use hawser_netdev::interface;

pub(crate) use self::counters::{WanDrops, register};
use super::{config::Config, nft};

/// Interval at which interfaces are looked for: one that comes, or is made anew, has no hook yet.
const TICK: Duration = Duration::from_secs(1);

/// Ticks between two looks at the counters for a peer whose path labels have another layout.
const LOOK_TICKS: u32 = 10;

const FAMILIES: [&str; 2] = ["netdev", "inet"];

/// The filter of a gateway. Its rules stay until [`WanFilter::stop`], also when the daemon is killed.
#[derive(Clone)]
pub(super) struct WanFilter {
    shared: Arc<Mutex<Shared>>,
    watcher: Arc<Mutex<Option<Watcher>>>,
}

/// The thread that looks for interfaces. It ends when `stop` is dropped.
struct Watcher {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

/// The rules in force.
#[derive(Default)]
struct Shared {
    /// None: there are no rules.
    config: Option<Config>,
    rules: String,
    /// Interfaces with a hook, by name, and their indices.
    hooked: BTreeMap<String, u32>,
    /// Counts of rules that were replaced.
    before: WanDrops,
    /// Whether the log names packets with path labels of another layout.
    warned: bool,
}

impl WanFilter {
    /// Loads the rules of a configuration, and removes those that a killed gateway left.
    pub(super) fn start(config: &Config) -> anyhow::Result<Self> {
        let mut shared = Shared::default();
        if config.wan.is_none() {
            remove_leftovers();
        }
        shared.set(config)?;
        let shared = Arc::new(Mutex::new(shared));
        let (stop, stopped) = mpsc::channel();
        let thread = thread::Builder::new().name("wan-filter".into()).spawn({
            let shared = Arc::clone(&shared);
            move || {
                let mut ticks: u32 = 0;
                while stopped.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                    ticks = ticks.wrapping_add(1);
                    if let Err(error) = lock(&shared).tick(ticks) {
                        tracing::warn!(error = format!("{error:#}"), "WAN filter");
                    }
                }
            }
        })?;
        let watcher = Arc::new(Mutex::new(Some(Watcher { stop, thread })));
        Ok(Self { shared, watcher })
    }

    /// Replaces the rules: each packet meets the old or the new ones.
    pub(super) fn set(&self, config: &Config) -> anyhow::Result<()> {
        lock(&self.shared).set(config)
    }

    /// What was dropped; none without rules.
    pub(super) fn counters(&self) -> anyhow::Result<Option<WanDrops>> {
        lock(&self.shared).counters()
    }

    /// Removes the rules.
    pub(super) fn stop(&self) {
        if let Some(Watcher { stop, thread }) = lock(&self.watcher).take() {
            drop(stop);
            let _ = thread.join();
        }
        if let Err(error) = lock(&self.shared).clear() {
            tracing::warn!(error = format!("{error:#}"), "WAN filter");
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Without nftables there are none.
fn remove_leftovers() {
    let removed = FAMILIES.map(rules::removed).concat();
    if let Err(error) = nft::run(&removed) {
        tracing::debug!(error = format!("{error:#}"), "no rules of a WAN filter to remove");
    }
}

impl Shared {
    fn set(&mut self, config: &Config) -> anyhow::Result<()> {
        let Some(wan) = &config.wan else { return self.clear() };
        let hooked = present(&wan.interfaces);
        let names: BTreeSet<_> = hooked.keys().map(String::as_str).collect();
        let rules = rules::ruleset(config, wan, &names);
        if (&rules, &hooked) != (&self.rules, &self.hooked) {
            let counted = self.counters()?;
            nft::run(&rules)?;
            self.before = counted.unwrap_or_default();
            (self.rules, self.hooked) = (rules, hooked);
        }
        self.config = Some(config.clone());
        Ok(())
    }

    fn clear(&mut self) -> anyhow::Result<()> {
        if self.config.is_some() {
            nft::run(&FAMILIES.map(rules::removed).concat())?;
            *self = Self::default();
        }
        Ok(())
    }

    fn tick(&mut self, ticks: u32) -> anyhow::Result<()> {
        self.follow_interfaces()?;
        if ticks.is_multiple_of(LOOK_TICKS) && !self.warned {
            self.look_for_other_labels()?;
        }
        Ok(())
    }

    /// Warns, once, of peers whose path labels have another layout: without it the tunnel is down and
    /// nothing says why.
    fn look_for_other_labels(&mut self) -> anyhow::Result<()> {
        let packets = self.counters()?.map_or(0, |drops| drops.other_label_bits);
        self.warned = packets > 0;
        if self.warned {
            tracing::warn!(
                packets,
                "UDP packets for ports that are this branch's with another `label_bits`: a peer is configured so"
            );
        }
        Ok(())
    }

    /// Loads the rules again if other interfaces are there.
    fn follow_interfaces(&mut self) -> anyhow::Result<()> {
        let Some(config) = self.config.clone() else { return Ok(()) };
        let wanted = config.wan.iter().flat_map(|wan| &wan.interfaces);
        if present(wanted) == self.hooked {
            return Ok(());
        }
        self.set(&config)
    }

    fn counters(&self) -> anyhow::Result<Option<WanDrops>> {
        if self.config.is_none() {
            return Ok(None);
        }
        let mut drops = self.before;
        for family in FAMILIES {
            drops.add(WanDrops::parse(&nft::counters(family, rules::TABLE)?)?);
        }
        Ok(Some(drops))
    }
}

/// Those interfaces that exist, and their indices.
fn present<'a>(names: impl IntoIterator<Item = &'a String>) -> BTreeMap<String, u32> {
    let found = |name: &String| Some((name.clone(), interface::find(name).ok()?.index));
    names.into_iter().filter_map(found).collect()
}
