//! Repeats the checks of all instances, in a thread of its own.

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

/// Watches the health of functions.
#[derive(Clone)]
pub(crate) struct Monitor {
    health: Arc<Mutex<Health>>,
}

impl Monitor {
    /// A monitor of these functions, which does nothing until it is started.
    pub(crate) fn new(functions: &[Function]) -> Self {
        Self { health: Arc::new(Mutex::new(Health::new(functions, Instant::now()))) }
    }

    /// What is known now.
    pub(crate) fn health(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is down now.
    pub(crate) fn down(&self) -> Down {
        self.health().down()
    }

    /// The data plane now leads packets around these.
    pub(crate) fn follow(&self, down: &Down) {
        self.health().follow(down);
    }

    /// Repeats all checks from now on, for as long as the process lives; `changed` is called, in the
    /// monitor's thread, whenever an instance goes down or comes up.
    pub(crate) fn start(&self, changed: impl Fn() + Send + Sync + 'static) -> io::Result<()> {
        let checks = self.health().checks();
        if checks.is_empty() {
            return Ok(());
        }
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let (monitor, changed) = (self.clone(), Arc::new(changed));
        let run = move || {
            runtime.block_on(async {
                let follow = |(place, check)| {
                    let changed = Arc::clone(&changed);
                    Follower { place, check, monitor: monitor.clone(), changed }.run()
                };
                checks.into_iter().map(follow).collect::<JoinSet<_>>().join_all().await;
            });
        };
        thread::Builder::new().name("health".into()).spawn(run)?;
        Ok(())
    }
}

/// Repeats one check.
struct Follower<F> {
    place: Place,
    check: Check,
    monitor: Monitor,
    changed: Arc<F>,
}

impl<F: Fn() + Send + Sync> Follower<F> {
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

    /// Takes a result in; gives the time until the next check.
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
