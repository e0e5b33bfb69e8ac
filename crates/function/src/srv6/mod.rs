//! `hawserd function srv6-proxy`: service proxies for SR-unaware functions
//! (draft-ietf-spring-sr-service-programming section 6).

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

/// Runs proxies until stopped. The eBPF program forwards their packets.
pub(crate) fn run(config: &Path, check: bool) -> Result<(), Failure> {
    let plan = load(config, parse)?;
    if check {
        return Ok(());
    }
    let listener = control::bind(Path::new(&plan.document.control)).context("control API")?;
    let node = Node::open(plan).map_err(|error| error.into_failure(config))?;
    let (stop, stopped) = mpsc::channel();
    let ends = move || {
        let _ = stop.send(()); // fails only if the process is ending already
    };
    let router = api::router(Arc::new(Api::new(node)));
    let server = control::serve(listener, router, ends).context("control API")?;
    let _ = stopped.recv(); // an error means that the thread has ended, which ends the process, too
    server.stop();
    Ok(())
}
