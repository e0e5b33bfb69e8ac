//! `hawserd function classifier`: maintains the routing rules that steer packets into chains.

pub(crate) mod api;
pub(crate) mod document;
mod plan;

use std::{
    path::Path,
    sync::{Arc, mpsc},
};

use anyhow::Context;
use hawser_daemon::{config::load, control, failure::Failure};
use hawser_netdev::routes::{self, Routes};
use tokio::runtime::{self, Runtime};

use self::{
    api::Api,
    plan::{Plan, Step, parse},
};
use crate::health::{Monitor, Verdict};

/// A message to the main thread.
enum Message {
    /// An instance went down or came up.
    Changed,
    /// The process is to end.
    Stop,
}

/// Maintains the rules until stopped. They stay in the kernel then.
pub(crate) fn run(config: &Path, check: bool) -> Result<(), Failure> {
    let plan = load(config, parse)?;
    if check {
        return Ok(());
    }
    let listener = control::bind(Path::new(&plan.document.control)).context("control API")?;
    let monitor = Monitor::new(&plan.document.functions);
    let mut rules = PathRules::open(plan.clone()).context("routing rules")?;
    rules.update(&monitor).context("routing rules")?;
    let (sender, receiver) = mpsc::channel();
    let changed = sender.clone();
    let ends = move || {
        let _ = sender.send(Message::Stop); // fails only if the process is ending already
    };
    let router = api::router(Arc::new(Api::new(plan, monitor.clone())));
    let server = control::serve(listener, router, ends).context("control API")?;
    let notify = move || {
        let _ = changed.send(Message::Changed);
    };
    monitor.start(notify).context("health checks")?;
    while let Ok(Message::Changed) = receiver.recv() {
        if let Err(error) = rules.update(&monitor) {
            tracing::error!(%error, "routing rules");
        }
    }
    server.stop();
    Ok(())
}

/// The kernel's rules of all paths.
struct PathRules {
    runtime: Runtime,
    routes: Routes,
    plan: Plan,
    /// The verdict that each path's rules implement; `None` if they could not be set.
    set: Vec<Option<Verdict>>,
}

impl PathRules {
    fn open(plan: Plan) -> std::io::Result<Self> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let routes = runtime.block_on(async { Routes::open() })?;
        let set = vec![None; plan.document.service_paths.len()];
        Ok(Self { runtime, routes, plan, set })
    }

    /// Sets the rules of paths whose verdict has changed. A path that fails is set again at the next change.
    fn update(&mut self, monitor: &Monitor) -> Result<(), routes::Error> {
        let down = monitor.down();
        let verdicts = self.plan.verdicts(&down);
        let mut result = Ok(());
        for (path, (verdict, set)) in verdicts.into_iter().zip(&mut self.set).enumerate() {
            if *set == Some(verdict) {
                continue;
            }
            let steps = self.plan.steps(path, verdict);
            let done = self.runtime.block_on(apply(&self.routes, steps));
            *set = done.is_ok().then_some(verdict);
            result = result.and(done);
        }
        result.inspect(|()| monitor.set_applied(&down))
    }
}

async fn apply(routes: &Routes, steps: Vec<Step>) -> Result<(), routes::Error> {
    for step in steps {
        match step {
            Step::Add(rule, action) => routes.add_rule(&rule, action).await?,
            Step::Remove(rule, action) => routes.remove_rule(&rule, action).await?,
        }
    }
    Ok(())
}
