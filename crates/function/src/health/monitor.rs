//! Runs the checks of all instances periodically, in a thread of its own.

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use tokio::{runtime, task::JoinSet, time};

use super::{
    document::{Check, Function},
    probe::Probe,
    table::{Down, Health, InstanceState, Place},
};

/// Monitors the health of functions.
#[derive(Clone)]
pub(crate) struct Monitor {
    health: Arc<Mutex<Health>>,
}

impl Monitor {
    /// A monitor of these functions; [`Self::start`] starts the checks.
    pub(crate) fn new(functions: &[Function]) -> Self {
        Self { health: Arc::new(Mutex::new(Health::new(functions, Instant::now()))) }
    }

    /// The current health of all functions.
    pub(crate) fn health(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The functions and instances that are down.
    pub(crate) fn down(&self) -> Down {
        self.health().down()
    }

    /// Notes that the data plane now avoids these.
    pub(crate) fn set_applied(&self, down: &Down) {
        self.health().set_applied(down);
    }

    /// Starts all checks, which run until the process ends. The monitor's thread calls `changed` whenever an
    /// instance goes down or comes up.
    pub(crate) fn start(&self, changed: impl Fn() + Send + Sync + 'static) -> io::Result<()> {
        let checks = self.health().checks();
        if checks.is_empty() {
            return Ok(());
        }
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let (monitor, changed) = (self.clone(), Arc::new(changed));
        let run = move || {
            runtime.block_on(async {
                let run = |(place, check)| {
                    let changed = Arc::clone(&changed);
                    CheckLoop { place, check, monitor: monitor.clone(), changed }.run()
                };
                checks.into_iter().map(run).collect::<JoinSet<_>>().join_all().await;
            });
        };
        thread::Builder::new().name("health".into()).spawn(run)?;
        Ok(())
    }
}

/// Runs one check periodically.
struct CheckLoop<F> {
    place: Place,
    check: Check,
    monitor: Monitor,
    changed: Arc<F>,
}

impl<F: Fn() + Send + Sync> CheckLoop<F> {
    async fn run(self) {
        let mut probe = Probe::new(&self.check);
        loop {
            let outcome = time::timeout(self.check.timeout(), probe.check()).await;
            let outcome = outcome.unwrap_or_else(|_| Err(probe.give_up(&self.check)));
            let pause = self.observe(outcome);
            tokio::select! {
                () = time::sleep(pause) => {}
                reason = probe.broken() => {
                    self.observe(Err(reason)); // the next check follows at once
                }
            }
        }
    }

    /// Records a result; returns the time until the next check.
    fn observe(&self, outcome: Result<(), String>) -> Duration {
        let mut health = self.monitor.health();
        let changes = health.observe(self.place, outcome, Instant::now()).map(log).is_some();
        let pause = health.pause(self.place);
        drop(health);
        if changes {
            (self.changed)();
        }
        pause
    }
}

fn log(instance: &InstanceState) {
    match instance.reason() {
        None => tracing::info!(instance = instance.name, "up"),
        Some(reason) => tracing::warn!(instance = instance.name, %reason, "down"),
    }
}
