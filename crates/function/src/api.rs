//! The control API of a node on service paths.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use axum::{
    Json, Router,
    extract::{DefaultBodyLimit, Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{delete, get},
};
use hawser_daemon::config::{FieldError, Invalid, typed};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    document::{Document, GuardRule, GuardRules, TraceRequest},
    error::Error,
    health::{
        Monitor,
        report::{self as health, FunctionHealth},
    },
    node::Node,
    plan::{self, Kind},
    report::{self, Counters, Packets, Sensing, Trace},
};

/// Answer to `GET /v1/status`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "hawserd function status")]
pub(crate) struct Status {
    version: &'static str,
    role: &'static str,
    uptime_s: f64,
    /// Packets are forwarded, and avoid functions that are down.
    ready: bool,
    /// Health of the functions that this daemon checks.
    functions: Vec<FunctionHealth>,
}

impl Status {
    /// The status of a node that is up.
    pub(crate) fn of(role: &'static str, started: Instant) -> Self {
        let version = env!("CARGO_PKG_VERSION");
        Self {
            version,
            role,
            uptime_s: started.elapsed().as_secs_f64(),
            ready: true,
            functions: Vec::new(),
        }
    }

    /// The same with this readiness.
    pub(crate) fn when(self, ready: bool) -> Self {
        Self { ready, ..self }
    }

    /// The same with the health of functions.
    pub(crate) fn with(self, monitor: &Monitor) -> Self {
        let known = monitor.health();
        let functions = health::health(&known, Instant::now());
        Self { functions, ready: known.is_applied(), ..self }
    }
}

/// How often a firewall looks for rules whose end has come.
const EXPIRY_PERIOD: Duration = Duration::from_millis(500);

/// What the API's handlers share.
pub(crate) struct Api {
    kind: Kind,
    node: Mutex<Node>,
    monitor: Monitor,
    started: Instant,
}

impl Api {
    /// The API of this node and of the health of its functions.
    pub(crate) fn new(kind: Kind, node: Node, monitor: Monitor) -> Arc<Self> {
        Arc::new(Self { kind, node: Mutex::new(node), monitor, started: Instant::now() })
    }

    /// Makes the node avoid functions and instances that are down.
    pub(crate) fn avoid_down(&self) {
        let mut node = self.node();
        let down = self.monitor.down();
        match node.avoid(down.clone()) {
            Ok(()) => self.monitor.set_applied(&down),
            Err(error) => tracing::error!(%error, "cannot apply the health of functions"),
        }
    }

    /// What became of the packets at the sensor.
    pub(crate) fn observed(&self) -> Result<Packets, Error> {
        Ok(self.node().observed()?.into())
    }

    /// Frees the ports.
    pub(crate) fn close(&self) {
        self.node().close();
    }

    /// Removes the firewall rules whose end has come, for ever.
    pub(crate) fn expire_rules(&self) {
        loop {
            thread::sleep(EXPIRY_PERIOD);
            if let Err(error) = self.node().expire() {
                tracing::error!(%error, "rules whose end has come stay in force");
            }
        }
    }

    fn node(&self) -> MutexGuard<'_, Node> {
        self.node.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The routes of a firewall's rules.
pub(crate) fn rules_router(api: Arc<Api>) -> Router {
    Router::new()
        .route("/v1/rules", get(rules).put(replace_rules).post(add_rule))
        .route("/v1/rules/{id}", delete(delete_rule).put(put_rule))
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .with_state(api)
}

type Shared = State<Arc<Api>>;

/// Largest request, bytes: room for a million rules.
const BODY_MAX: usize = 256 << 20;

/// The routes.
pub(crate) fn router(api: Arc<Api>) -> Router {
    Router::new()
        .route("/v1/status", get(status))
        .route("/v1/counters", get(counters))
        .route("/v1/config", get(config).put(replace))
        .route("/v1/trace", get(trace).put(start_trace))
        .route("/v1/sensor", get(sensing))
        .route("/metrics", get(metrics))
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .with_state(api)
}

async fn status(State(api): Shared) -> Json<Status> {
    Json(Status::of(api.kind.role(), api.started).with(&api.monitor))
}

async fn counters(State(api): Shared) -> Result<Json<Counters>, Refusal> {
    Ok(Json(report::counters(&api.node())?))
}

async fn metrics(State(api): Shared) -> Result<String, Refusal> {
    Ok(report::prometheus(&report::counters(&api.node())?))
}

async fn sensing(State(api): Shared) -> Result<Json<Sensing>, Refusal> {
    let node = api.node();
    Ok(Json(Sensing { rings: node.rings().to_vec(), packets: node.observed()?.into() }))
}

async fn config(State(api): Shared) -> Json<Document> {
    Json(api.node().plan().document.clone())
}

/// Replaces hops, rules and service paths.
async fn replace(State(api): Shared, Json(new): Json<Value>) -> Result<Json<Document>, Refusal> {
    let plan = plan::parse(api.kind, &new).map_err(Error::from)?;
    let mut node = api.node();
    unchanged(&node.plan().document, &plan.document).map_err(Error::from)?;
    node.install(plan)?;
    Ok(Json(node.plan().document.clone()))
}

async fn rules(State(api): Shared) -> Result<Json<GuardRules>, Refusal> {
    api.node().rules().cloned().map(Json).ok_or(Refusal::NotHere)
}

async fn replace_rules(
    State(api): Shared,
    Json(new): Json<Value>,
) -> Result<Json<GuardRules>, Refusal> {
    put_rules(&mut api.node(), typed(&new).map_err(Error::from)?)
}

/// Appends a rule.
async fn add_rule(State(api): Shared, Json(new): Json<Value>) -> Result<Response, Refusal> {
    let rule: GuardRule = typed(&new).map_err(Error::from)?;
    let mut node = api.node();
    let mut list = node.rules().cloned().ok_or(Refusal::NotHere)?;
    list.rules.push(rule);
    let Json(list) = put_rules(&mut node, list)?;
    Ok((StatusCode::CREATED, Json(list.rules.last().cloned())).into_response())
}

/// Replaces the rule of this number; if there is none, the new one is the first.
async fn put_rule(
    State(api): Shared,
    Path(id): Path<u64>,
    Json(mut new): Json<Value>,
) -> Result<Json<Option<GuardRule>>, Refusal> {
    if let Some(fields) = new.as_object_mut() {
        let given = fields.entry("id").or_insert_with(|| json!(id));
        if *given != json!(id) {
            let expected = format!("{id}, as in the address, or nothing");
            return Err(Error::from(FieldError::new("id", given.clone(), expected)).into());
        }
    }
    let rule: GuardRule = typed(&new).map_err(Error::from)?;
    let mut node = api.node();
    let mut list = node.rules().cloned().ok_or(Refusal::NotHere)?;
    match list.rules.iter_mut().find(|known| known.id == Some(id)) {
        Some(known) => *known = rule,
        None => list.rules.insert(0, rule),
    }
    let Json(list) = put_rules(&mut node, list)?;
    Ok(Json(list.rules.into_iter().find(|rule| rule.id == Some(id))))
}

async fn delete_rule(State(api): Shared, Path(id): Path<u64>) -> Result<StatusCode, Refusal> {
    let mut node = api.node();
    let mut list = node.rules().cloned().ok_or(Refusal::NotHere)?;
    let before = list.rules.len();
    list.rules.retain(|rule| rule.id != Some(id));
    if list.rules.len() == before {
        return Err(Refusal::NoSuchRule(id));
    }
    let _ = put_rules(&mut node, list)?;
    Ok(StatusCode::NO_CONTENT)
}

fn put_rules(node: &mut Node, list: GuardRules) -> Result<Json<GuardRules>, Refusal> {
    node.guard(list)?.cloned().map(Json).ok_or(Refusal::NotHere)
}

async fn trace(State(api): Shared) -> Json<Trace> {
    Json(report::trace(&mut api.node()))
}

async fn start_trace(State(api): Shared, Json(new): Json<Value>) -> Result<StatusCode, Refusal> {
    let request: TraceRequest = typed(&new).map_err(Error::from)?;
    api.node().trace(&request)?;
    Ok(StatusCode::NO_CONTENT)
}

/// Reports fields that cannot change while the daemon runs.
fn unchanged(old: &Document, new: &Document) -> Result<(), Invalid> {
    let interfaces = |document: &Document| {
        json!(
            document
                .ports
                .iter()
                .map(|port| (&port.name, &port.interface, port.proxy, port.mirror))
                .collect::<Vec<_>>()
        )
    };
    let fields = [
        ("control", json!(old.control), json!(new.control)),
        ("ports", interfaces(old), interfaces(new)),
        ("oam", json!(old.oam), json!(new.oam)),
        ("firewall", json!(old.firewall), json!(new.firewall)),
        ("ids", json!(old.ids), json!(new.ids)),
        ("sensor", json!(old.sensor), json!(new.sensor)),
        ("functions", json!(old.functions), json!(new.functions)),
    ];
    let changed = fields.into_iter().filter(|(_, old, new)| old != new);
    let errors: Vec<_> = changed
        .map(|(field, _, new)| FieldError::new(field, new, "what it was when the daemon started"))
        .collect();
    if errors.is_empty() { Ok(()) } else { Err(Invalid { errors }) }
}

/// Why a request fails.
pub(crate) enum Refusal {
    Failed(Error),
    NotHere,
    NoSuchRule(u64),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (status, text) = match self {
            Self::Failed(Error::Invalid(invalid)) => {
                return (StatusCode::UNPROCESSABLE_ENTITY, Json(json!(invalid))).into_response();
            }
            Self::Failed(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
            Self::NotHere => {
                (StatusCode::NOT_FOUND, "only a firewall has rules of this kind".into())
            }
            Self::NoSuchRule(id) => (StatusCode::NOT_FOUND, format!("no rule has number {id}")),
        };
        (status, Json(json!({"error": text}))).into_response()
    }
}
