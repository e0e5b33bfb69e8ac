//! `hawserd function srv6-proxy`: stands in for functions that know nothing of segment routing.

pub(crate) mod api;
pub(crate) mod document;
mod plan;

use std::{
    path::Path,
    sync::{Arc, mpsc},
};

use anyhow::Context;
use hawser_bpf::srv6::{self as bpf, Proxies};
use hawser_daemon::{config::load, control, failure::Failure};

use self::{
    api::Api,
    plan::{Plan, parse},
};
use super::{
    node::{Error, find},
    refused,
};

/// Runs proxies until they are told to stop. Their packets are moved by the kernel.
pub(crate) fn run(config: &Path, check: bool) -> Result<(), Failure> {
    let plan = load(config, parse)?;
    if check {
        return Ok(());
    }
    let listener = control::bind(Path::new(&plan.document.control)).context("control API")?;
    let node = Node::open(plan).map_err(|error| refused(config, error))?;
    let (stop, stopped) = mpsc::channel();
    let ends = move || {
        let _ = stop.send(()); // a process that ends already needs no word
    };
    let router = api::router(Arc::new(Api::new(node)));
    let server = control::serve(listener, router, ends).context("control API")?;
    let _ = stopped.recv(); // a thread that has ended is a reason to end, too
    server.stop();
    Ok(())
}

/// Proxies at their ports.
pub(crate) struct Node {
    proxies: Proxies,
    plan: Plan,
}

impl Node {
    fn open(plan: Plan) -> Result<Self, Error> {
        let ports = plan.document.ports.iter().map(|port| port.interface.as_str());
        let (indices, interfaces) = find(ports)?;
        let mut proxies = Proxies::load()?;
        for (number, index) in (0..).zip(&indices) {
            proxies.add_port(number, *index)?;
        }
        for (number, proxy) in (0..).zip(plan.proxies(&interfaces, &indices)) {
            proxies.add(number, &proxy)?;
        }
        for index in indices {
            proxies.attach(index)?;
        }
        Ok(Self { proxies, plan })
    }

    /// What each proxy has counted, in their order.
    fn counts(&self) -> Result<Vec<bpf::Counts>, Error> {
        let all = (0..).zip(&self.plan.document.proxies);
        all.map(|(number, _)| Ok(self.proxies.counts(number)?)).collect()
    }
}
