//! The control API of the WAN emulator.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::Instant,
};

use axum::{
    Json, Router,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, patch},
};
use hawser_daemon::{
    config::{FieldError, Invalid},
    renamed::accept_old_names,
};
use hawser_netdev::poll::Waker;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::{Mutex, oneshot};

use super::{
    counters::{Counters, Queues, prometheus},
    document::Document,
    plan::{self, Plan},
};

/// A command of the control API to the event loop.
pub(crate) enum Command {
    /// Send the counters.
    Count(oneshot::Sender<Counters>),
    /// Send what the queues count.
    CountQueues(oneshot::Sender<Queues>),
    /// Apply these paths, and confirm.
    Configure(Vec<plan::Path>, oneshot::Sender<()>),
    /// Stop.
    Stop,
}

/// Sends commands to the event loop and wakes it.
#[derive(Clone)]
pub(crate) struct Handle {
    commands: mpsc::Sender<Command>,
    waker: Waker,
}

impl Handle {
    /// A handle to the loop that receives these commands and has this waker.
    pub(crate) fn new(commands: mpsc::Sender<Command>, waker: Waker) -> Self {
        Self { commands, waker }
    }

    /// Sends a command to the event loop.
    pub(crate) fn send(&self, command: Command) {
        let _ = self.commands.send(command); // fails if the loop has ended
        self.waker.wake();
    }
}

/// Response to `GET /v1/status`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "hawserd wan status")]
pub(crate) struct Status {
    version: &'static str,
    role: &'static str,
    uptime_s: f64,
    /// Whether packets are forwarded.
    ready: bool,
    /// Whether the event loop has real-time priority (`SCHED_FIFO`).
    realtime: bool,
}

/// State shared by the API's handlers.
pub(crate) struct Api {
    handle: Handle,
    /// The current configuration.
    document: Mutex<Document>,
    started: Instant,
    /// Whether the event loop has real-time priority.
    realtime: Arc<AtomicBool>,
}

impl Api {
    /// An API for the event loop of this handle.
    pub(crate) fn new(handle: Handle, document: Document, realtime: Arc<AtomicBool>) -> Self {
        Self { handle, document: Mutex::new(document), started: Instant::now(), realtime }
    }
}

type Shared = State<Arc<Api>>;

/// The routes.
pub(crate) fn router(api: Api) -> Router {
    Router::new()
        .route("/v1/status", get(status))
        .route("/v1/counters", get(counters))
        .route("/v1/queues", get(queues))
        .route("/v1/config", get(config).put(replace))
        .route("/v1/paths/{name}", patch(amend))
        .route("/metrics", get(metrics))
        .with_state(Arc::new(api))
}

async fn status(State(api): Shared) -> Json<Status> {
    Json(Status {
        version: env!("CARGO_PKG_VERSION"),
        role: "wan",
        uptime_s: api.started.elapsed().as_secs_f64(),
        ready: true,
        realtime: api.realtime.load(Ordering::Relaxed),
    })
}

async fn counters(State(api): Shared) -> Result<Json<Counters>, Refusal> {
    ask(&api, Command::Count).await.map(Json)
}

async fn queues(State(api): Shared) -> Result<Json<Queues>, Refusal> {
    ask(&api, Command::CountQueues).await.map(Json)
}

async fn metrics(State(api): Shared) -> Result<String, Refusal> {
    ask(&api, Command::Count).await.map(|counters| prometheus(&counters))
}

async fn ask<T>(
    api: &Api,
    command: impl FnOnce(oneshot::Sender<T>) -> Command,
) -> Result<T, Refusal> {
    let (answer, answered) = oneshot::channel();
    api.handle.send(command(answer));
    answered.await.map_err(|_| Refusal::Ending)
}

async fn config(State(api): Shared) -> Json<Document> {
    Json(api.document.lock().await.clone())
}

/// `PUT /v1/config`: replaces the configuration.
async fn replace(State(api): Shared, Json(new): Json<Value>) -> Result<Json<Document>, Refusal> {
    let mut document = api.document.lock().await;
    apply(&api, &mut document, &new).await
}

/// `PATCH /v1/paths/{name}`: changes values of one path (JSON merge patch, RFC 7396).
async fn amend(
    State(api): Shared,
    Path(name): Path<String>,
    Json(change): Json<Value>,
) -> Result<Json<Document>, Refusal> {
    let mut document = api.document.lock().await;
    let Some(number) = document.paths.iter().position(|path| path.name == name) else {
        return Err(Refusal::NoSuchPath(name));
    };
    let mut new = serde_json::to_value(&*document).unwrap_or_default();
    if let Some(path) = new.pointer_mut(&format!("/paths/{number}")) {
        merge(path, accept_old_names(&change, &plan::RENAMED_IN_PATH));
    }
    apply(&api, &mut document, &new).await
}

async fn apply(api: &Api, document: &mut Document, new: &Value) -> Result<Json<Document>, Refusal> {
    let (new, plan) = plan::parse(new)?;
    check_unchanged(document, &new)?;
    let Plan { paths, .. } = plan;
    ask(api, |answer| Command::Configure(paths, answer)).await?;
    *document = new.clone();
    Ok(Json(new))
}

/// Refuses changes of fields that are fixed while the daemon runs.
fn check_unchanged(old: &Document, new: &Document) -> Result<(), Invalid> {
    let fields = [
        ("control", json!(old.control), json!(new.control)),
        ("seed", json!(old.seed), json!(new.seed)),
        ("buffer_bytes", json!(old.buffer_bytes), json!(new.buffer_bytes)),
        ("wires", json!(old.wires), json!(new.wires)),
    ];
    let changed = fields.into_iter().filter(|(_, old, new)| old != new);
    let errors: Vec<_> = changed
        .map(|(field, _, new)| FieldError::new(field, new, "its value when the daemon started"))
        .collect();
    if errors.is_empty() { Ok(()) } else { Err(Invalid { errors }) }
}

/// `MergePatch` of RFC 7396 section 2.
fn merge(target: &mut Value, change: Value) {
    let Value::Object(change) = change else {
        *target = change;
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let Some(target) = target.as_object_mut() else { return };
    for (key, value) in change {
        if value.is_null() {
            target.remove(&key);
        } else {
            merge(target.entry(key).or_insert(Value::Null), value);
        }
    }
}

/// Why a request is refused.
enum Refusal {
    Invalid(Invalid),
    NoSuchPath(String),
    Ending,
}

impl From<Invalid> for Refusal {
    fn from(invalid: Invalid) -> Self {
        Self::Invalid(invalid)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        match self {
            Self::Invalid(invalid) => (StatusCode::UNPROCESSABLE_ENTITY, Json(json!(invalid))),
            Self::NoSuchPath(name) => {
                (StatusCode::NOT_FOUND, Json(json!({"error": format!("no path is called {name}")})))
            }
            Self::Ending => {
                (StatusCode::SERVICE_UNAVAILABLE, Json(json!({"error": "the daemon is ending"})))
            }
        }
        .into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_of_rfc_7396_appendix_a() {
        for (target, change, expected) in [
            (json!({"a":"b"}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"b"}), json!({"b":"c"}), json!({"a":"b","b":"c"})),
            (json!({"a":"b"}), json!({"a":null}), json!({})),
            (json!({"a":"b","b":"c"}), json!({"a":null}), json!({"b":"c"})),
            (json!({"a":["b"]}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":{"b":"c"}}), json!({"a":{"b":"d","c":null}}), json!({"a":{"b":"d"}})),
            (json!({}), json!({"a":{"bb":{"ccc":null}}}), json!({"a":{"bb":{}}})),
            (json!({"e":null}), json!({"a":1}), json!({"e":null,"a":1})),
        ] {
            let mut merged = target;
            merge(&mut merged, change);
            assert_eq!(merged, expected);
        }
    }
}
