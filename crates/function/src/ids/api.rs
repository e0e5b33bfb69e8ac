//! The control API of a sensor.

use std::sync::{Arc, PoisonError, RwLock};

use axum::{
    Json, Router,
    extract::{DefaultBodyLimit, Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use hawser_daemon::config::{FieldError, Invalid, typed};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::task::spawn_blocking;

use super::{
    Flows, Sensor, Threads,
    block::{Block, Target, Why},
    clock::now_us,
    log, models,
    policy::{Decision, Finding},
    verdicts::{self, Verdicts},
};
use crate::{api::Api, error::Error, report::Packets};

/// Answer to `GET /v1/ids`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "hawserd ids status")]
pub(crate) struct Status {
    /// Packets at the ports, or at the forwarder.
    packets: Packets,
    /// Flows.
    flows: Flows,
    /// The model.
    model: models::Report,
    /// The record log; nothing without one.
    records: Option<log::Report>,
    /// Verdicts; nothing without settings for them.
    verdicts: Option<verdicts::Report>,
}

/// Answer to `GET /v1/blocks`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "hawserd ids blocks")]
pub(crate) struct Blocks {
    /// By number.
    blocks: Vec<Block>,
}

/// A verdict of another program, such as one that sees several sensors. It is subject to the same limits as the
/// sensor's own.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "hawserd ids verdict")]
pub(crate) struct Verdict {
    /// What is to be blocked.
    target: Target,
    /// Who says so, and why.
    #[schemars(length(min = 1, max = 200))]
    by: String,
    /// Probability that it is malicious.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    score: Option<f64>,
    /// The flow that led to it, as in its records.
    #[serde(default)]
    #[schemars(length(max = 100))]
    flow: String,
}

/// A sensor and its function.
pub(crate) struct Served {
    api: Arc<Api>,
    sensor: RwLock<Sensor>,
}

impl Served {
    /// Serves both.
    pub(crate) fn new(api: Arc<Api>, sensor: Sensor) -> Arc<Self> {
        Arc::new(Self { api, sensor: RwLock::new(sensor) })
    }

    /// Ends the sensor.
    pub(crate) fn stop(&self, threads: Threads) {
        self.sensor.write().unwrap_or_else(PoisonError::into_inner).stop(threads);
    }

    fn verdicts(&self) -> Result<Arc<Verdicts>, Refusal> {
        let sensor = self.sensor.read().unwrap_or_else(PoisonError::into_inner);
        sensor.verdicts.clone().ok_or(Refusal::NotHere)
    }
}

type Shared = State<Arc<Served>>;

/// Largest request, bytes.
const BODY_MAX: usize = 64 << 10;

/// The routes.
pub(crate) fn router(served: Arc<Served>) -> Router {
    Router::new()
        .route("/v1/ids", get(status))
        .route("/v1/blocks", get(blocks))
        .route("/v1/blocks/{id}", get(block).delete(take_back))
        .route("/v1/verdicts", post(take))
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .with_state(served)
}

async fn status(State(served): Shared) -> Result<Json<Status>, Refusal> {
    let observed = served.api.observed()?;
    let sensor = served.sensor.read().unwrap_or_else(PoisonError::into_inner);
    Ok(Json(Status {
        packets: sensor.forwarder.as_ref().map_or(observed, |forwarder| forwarder.packets()),
        flows: sensor.flows(),
        model: sensor.models.report(),
        records: sensor.log.as_ref().map(log::Log::report),
        verdicts: sensor.verdicts.as_ref().map(|verdicts| verdicts.report()),
    }))
}

async fn blocks(State(served): Shared) -> Result<Json<Blocks>, Refusal> {
    Ok(Json(Blocks { blocks: served.verdicts()?.blocks() }))
}

async fn block(State(served): Shared, Path(id): Path<u64>) -> Result<Json<Block>, Refusal> {
    served.verdicts()?.block(id).map(Json).ok_or(Refusal::NoSuchBlock(id))
}

async fn take_back(State(served): Shared, Path(id): Path<u64>) -> Result<StatusCode, Refusal> {
    let verdicts = served.verdicts()?;
    if !verdicts.take_back(id) {
        return Err(Refusal::NoSuchBlock(id));
    }
    stored(verdicts).await;
    Ok(StatusCode::NO_CONTENT)
}

/// Returns when the blocks are on the disk: what a client was told outlives the sensor.
async fn stored(verdicts: Arc<Verdicts>) {
    let _ = spawn_blocking(move || verdicts.store()).await;
}

/// Takes a verdict: `{"block": ID}` with 201, or 409 with the reason why it has no effect.
async fn take(State(served): Shared, Json(new): Json<Value>) -> Result<Response, Refusal> {
    let Verdict { mut target, by, score, flow } = typed(&new).map_err(Error::from)?;
    target.source = target.source.to_canonical();
    if target.source.is_unspecified() || target.source.is_multicast() {
        let found = target.source.to_string();
        let error = FieldError::new("target.source", found, "the address of a host");
        return Err(Error::from(Invalid { errors: vec![error] }).into());
    }
    let finding = Finding { target, flow, first_us: now_us() };
    let (threshold, reason, branch, features) = (None, None, Vec::new(), Map::new());
    let why = || Why { by, score, threshold, reason, branch, features, flows: 0 };
    let verdicts = served.verdicts()?;
    let said = match verdicts.judge(&finding, why) {
        Decision::Block(id) => {
            stored(verdicts).await;
            return Ok((StatusCode::CREATED, Json(json!({ "block": id }))).into_response());
        }
        Decision::Renew(_) | Decision::Known | Decision::Noted => {
            return Ok(StatusCode::OK.into_response());
        }
        Decision::Allowed => "the source is on the allow list",
        Decision::Pardoned => "an operator has taken such a block back",
        Decision::Limited => "too many verdicts in a minute",
        Decision::Full => "too many blocks",
    };
    Ok((StatusCode::CONFLICT, Json(json!({ "error": said }))).into_response())
}

/// Why a request fails.
pub(crate) enum Refusal {
    Failed(Error),
    NotHere,
    NoSuchBlock(u64),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (status, text) = match self {
            Self::Failed(error) => return crate::api::Refusal::from(error).into_response(),
            Self::NotHere => (StatusCode::NOT_FOUND, "this sensor gives no verdicts".into()),
            Self::NoSuchBlock(id) => (StatusCode::NOT_FOUND, format!("no block has number {id}")),
        };
        (status, Json(json!({ "error": text }))).into_response()
    }
}
