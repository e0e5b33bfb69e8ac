//! `hawserd function srv6-proxy`: stands in for functions that know nothing of segment routing.

pub(crate) mod api;
pub(crate) mod document;
mod node;
mod plan;

use std::{
    path::Path,
    sync::{Arc, mpsc},
};

use anyhow::Context;
use hawser_daemon::{config::load, control, failure::Failure};

use self::{api::Api, node::Node, plan::parse};

/// Runs proxies until they are told to stop. Their packets are moved by the kernel.
pub(crate) fn run(config: &Path, check: bool) -> Result<(), Failure> {
    let plan = load(config, parse)?;
    if check {
        return Ok(());
    }
    let listener = control::bind(Path::new(&plan.document.control)).context("control API")?;
    let node = Node::open(plan).map_err(|error| error.into_failure(config))?;
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
