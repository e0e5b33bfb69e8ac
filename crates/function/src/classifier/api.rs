//! The control API of a classifier.

use std::{sync::Arc, time::Instant};

use axum::{Json, Router, extract::State, routing::get};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    document::{Document, RuledPath},
    plan::Plan,
};
use crate::{
    api::Status,
    health::{
        Monitor, Verdict,
        report::{self, FunctionHealth},
    },
};

/// Answer to `GET /v1/counters` of a classifier.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "hawserd classifier counters")]
pub(crate) struct Counters {
    /// What is done with each path's packets now.
    paths: Vec<PathState>,
    /// Health of the functions that it checks.
    functions: Vec<FunctionHealth>,
}

/// A path.
#[derive(Debug, Serialize, JsonSchema)]
struct PathState {
    name: String,
    /// `forward`: they are forwarded through its functions; `bypass`: they bypass the chain; `drop`.
    state: &'static str,
}

/// What the API's handlers share.
pub(crate) struct Api {
    plan: Plan,
    monitor: Monitor,
    started: Instant,
}

impl Api {
    /// An API of these paths and of the health of their functions.
    pub(crate) fn new(plan: Plan, monitor: Monitor) -> Self {
        Self { plan, monitor, started: Instant::now() }
    }
}

/// The routes.
pub(crate) fn router(api: Arc<Api>) -> Router {
    Router::new()
        .route("/v1/status", get(status))
        .route("/v1/counters", get(counters))
        .route("/v1/config", get(config))
        .with_state(api)
}

type Shared = State<Arc<Api>>;

async fn status(State(api): Shared) -> Json<Status> {
    Json(Status::of("classifier", api.started).with(&api.monitor))
}

async fn counters(State(api): Shared) -> Json<Counters> {
    let verdicts = api.plan.verdicts(&api.monitor.down());
    let paths = api.plan.document.service_paths.iter().zip(verdicts);
    let state = |(path, verdict): (&RuledPath, Verdict)| PathState {
        name: path.name.clone(),
        state: match verdict {
            Verdict::Forward => "forward",
            Verdict::Bypass => "bypass",
            Verdict::Drop => "drop",
        },
    };
    let paths = paths.map(state).collect();
    let functions = report::health(&api.monitor.health(), Instant::now());
    Json(Counters { paths, functions })
}

async fn config(State(api): Shared) -> Json<Document> {
    Json(api.plan.document.clone())
}
