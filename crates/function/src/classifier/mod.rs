//! `hawserd function classifier`: keeps the routing rules of chains that the kernel leads.

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

/// What the main thread is told.
enum Word {
    /// An instance went down or came up.
    Changed,
    /// The process is to end.
    Stop,
}

/// Keeps rules until it is told to stop. They stay as they are then.
pub(crate) fn run(config: &Path, check: bool) -> Result<(), Failure> {
    let plan = load(config, parse)?;
    if check {
        return Ok(());
    }
    let listener = control::bind(Path::new(&plan.document.control)).context("control API")?;
    let monitor = Monitor::new(&plan.document.functions);
    let mut keeper = Keeper::open(plan.clone()).context("routing rules")?;
    keeper.follow(&monitor).context("routing rules")?;
    let (tell, told) = mpsc::channel();
    let changed = tell.clone();
    let ends = move || {
        let _ = tell.send(Word::Stop); // a process that ends already needs no word
    };
    let router = api::router(Arc::new(Api::new(plan, monitor.clone())));
    let server = control::serve(listener, router, ends).context("control API")?;
    let tells = move || {
        let _ = changed.send(Word::Changed);
    };
    monitor.start(tells).context("health checks")?;
    while let Ok(Word::Changed) = told.recv() {
        if let Err(error) = keeper.follow(&monitor) {
            tracing::error!(%error, "routing rules");
        }
    }
    server.stop();
    Ok(())
}

/// Makes the kernel's rules what they should be.
struct Keeper {
    runtime: Runtime,
    routes: Routes,
    plan: Plan,
    /// What each path's rules are for now; unknown where they have not been set.
    set: Vec<Option<Verdict>>,
}

impl Keeper {
    fn open(plan: Plan) -> std::io::Result<Self> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let routes = runtime.block_on(async { Routes::open() })?;
        let set = vec![None; plan.document.service_paths.len()];
        Ok(Self { runtime, routes, plan, set })
    }

    /// Sets the rules of paths whose verdict has changed. One that fails is set again at the next change.
    fn follow(&mut self, monitor: &Monitor) -> Result<(), routes::Error> {
        let down = monitor.down();
        let verdicts = self.plan.verdicts(&down);
        let mut result = Ok(());
        for (path, (verdict, set)) in verdicts.into_iter().zip(&mut self.set).enumerate() {
            if *set == Some(verdict) {
                continue;
            }
            let steps = self.plan.steps(path, verdict);
            let done = self.runtime.block_on(carry_out(&self.routes, steps));
            *set = done.is_ok().then_some(verdict);
            result = result.and(done);
        }
        result.inspect(|()| monitor.follow(&down))
    }
}

async fn carry_out(routes: &Routes, steps: Vec<Step>) -> Result<(), routes::Error> {
    for step in steps {
        match step {
            Step::Add(rule, action) => routes.add_rule(&rule, action).await?,
            Step::Remove(rule, action) => routes.remove_rule(&rule, action).await?,
        }
    }
    Ok(())
}
