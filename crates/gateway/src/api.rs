//! The gateway's control API.

use std::sync::{Arc, Mutex, PoisonError};

use axum::{
    Json, Router,
    extract::{State, rejection::JsonRejection},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use hawser_daemon::config::Invalid;
use hawser_tls::Identity;
use serde_json::{Value, json};

use super::{
    command::{Apply, Command, Mailbox},
    config::{self, Config, Document},
    setup,
    status::{Counters, Status, metrics},
    switch::Switch,
    trains::{self, Answer},
    wan_filter::WanFilter,
};

/// State shared by the handlers.
#[derive(Clone)]
pub(super) struct Api {
    mailbox: Mailbox,
    config: Arc<Mutex<Config>>,
    switch: Switch,
    filter: WanFilter,
    /// Serializes configuration changes.
    changing: Arc<tokio::sync::Mutex<()>>,
}

/// Routes of the API. `config` holds the configuration in force, and is updated by changes.
pub(super) fn router(
    mailbox: Mailbox,
    config: Arc<Mutex<Config>>,
    (switch, filter): (Switch, WanFilter),
) -> Router {
    let api = Api { mailbox, config, switch, filter, changing: Arc::default() };
    Router::new()
        .route("/v1/status", get(status))
        .route("/v1/counters", get(counters))
        .route("/v1/config", get(read_config).put(write_config))
        .route("/v1/trains", post(send_train))
        .route("/metrics", get(read_metrics))
        .fallback(|| async { Failure::new(StatusCode::NOT_FOUND, "no such path") })
        .method_not_allowed_fallback(|| async {
            Failure::new(StatusCode::METHOD_NOT_ALLOWED, "method not allowed here")
        })
        .with_state(api)
}

/// An error response.
struct Failure(StatusCode, Value);

impl Failure {
    fn new(code: StatusCode, error: impl Into<String>) -> Self {
        Self(code, json!({"error": error.into()}))
    }

    fn internal(error: &anyhow::Error) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, format!("{error:#}"))
    }

    fn conflict(error: &anyhow::Error) -> Self {
        Self::new(StatusCode::CONFLICT, format!("{error:#}"))
    }

    fn ended() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "the gateway is stopping")
    }
}

impl From<Invalid> for Failure {
    fn from(invalid: Invalid) -> Self {
        let errors = serde_json::to_value(invalid).unwrap_or_default();
        Self(StatusCode::UNPROCESSABLE_ENTITY, errors)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        (self.0, Json(self.1)).into_response()
    }
}

impl Api {
    async fn status(&self) -> Result<Status, Failure> {
        self.mailbox.ask(Command::Status).await.ok_or_else(Failure::ended)
    }

    async fn counters(&self) -> Result<Counters, Failure> {
        let mut counters = self.mailbox.ask(Command::Counters).await.ok_or_else(Failure::ended)?;
        let switch = self.switch.counters();
        counters.switch = switch.map_err(|error| Failure::internal(&error))?;
        let wan = self.filter.counters();
        counters.wan = wan.map_err(|error| Failure::internal(&error))?;
        Ok(counters)
    }

    fn config(&self) -> Config {
        self.config.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Applies a configuration: WAN filter, agent, switch, routes.
    async fn change(
        &self,
        old: &Config,
        new: &Config,
        identity: Option<Identity>,
    ) -> Result<(), Failure> {
        let conflict = |error: anyhow::Error| Failure::conflict(&error);
        let prepared = Switch::prepare(new).map_err(conflict)?;
        self.filter.set(new).map_err(conflict)?;
        let apply = Box::new(Apply { config: new.clone(), identity });
        let applied = self.mailbox.ask(|reply| Command::Apply(apply, reply)).await;
        let refused = |error: String| Failure::new(StatusCode::CONFLICT, error);
        applied.ok_or_else(Failure::ended)?.map_err(refused)?;
        self.switch.commit(prepared).map_err(conflict)?;
        setup::change_network(old, new).await.map_err(conflict)
    }

    /// Restores the previous configuration after a failed change, as far as it was applied.
    async fn roll_back(&self, new: &Config, old: &Config) {
        let result = match setup::identity(old) {
            Ok(identity) => self.change(new, old, identity).await,
            Err(invalid) => Err(invalid.into()),
        };
        if let Err(Failure(_, error)) = result {
            tracing::error!(%error, "cannot restore the previous configuration");
        }
    }

    fn set_config(&self, config: Config) {
        *self.config.lock().unwrap_or_else(PoisonError::into_inner) = config;
    }
}

async fn status(State(api): State<Api>) -> Result<Json<Status>, Failure> {
    api.status().await.map(Json)
}

async fn counters(State(api): State<Api>) -> Result<Json<Counters>, Failure> {
    api.counters().await.map(Json)
}

async fn read_metrics(State(api): State<Api>) -> Result<Response, Failure> {
    let text = metrics(&api.status().await?, &api.counters().await?);
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}

async fn read_config(State(api): State<Api>) -> Json<Document> {
    Json(api.config().document)
}

/// Sends a train; answers once it has arrived.
async fn send_train(
    State(api): State<Api>,
    body: Result<Json<Value>, JsonRejection>,
) -> Result<Json<Answer>, Failure> {
    let Json(value) = body.map_err(|error| Failure::new(error.status(), error.body_text()))?;
    let request = Box::new(trains::parse(&value, &api.config())?);
    let answer = api.mailbox.ask(|reply| Command::Train(request, reply)).await;
    let refused = |error| Failure::conflict(&anyhow::Error::new(error));
    Ok(Json(answer.ok_or_else(Failure::ended)?.map_err(refused)?.into()))
}

async fn write_config(
    State(api): State<Api>,
    body: Result<Json<Value>, JsonRejection>,
) -> Result<Json<Document>, Failure> {
    let Json(value) = body.map_err(|error| Failure::new(error.status(), error.body_text()))?;
    let _one_at_a_time = api.changing.lock().await;
    let (old, new) = (api.config(), config::parse(&value)?);
    let errors = old.fixed_differences(&new);
    if !errors.is_empty() {
        return Err(Invalid { errors }.into());
    }
    let identity = setup::identity(&new)?;
    if let Err(failure) = api.change(&old, &new, identity).await {
        api.roll_back(&new, &old).await;
        return Err(failure);
    }
    api.set_config(new.clone());
    Ok(Json(new.document))
}
