//! Role `load`: a load generator and meter, which accounts for each frame.
#![forbid(unsafe_code)]

mod capture;
mod clock;
mod compose;
mod config;
mod headers;
mod open;
mod pacer;
mod plan;
mod receiver;
mod receiver_packet;
mod receiver_socket;
mod receiver_udp;
mod receiver_xdp;
mod report;
mod result;
mod schedule;
mod sender;
mod sender_packet;
mod sender_udp;
mod sender_xdp;
mod sizes;
mod trial;

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Instant,
};

use anyhow::Context;
use axum::{Json, Router, extract::State, http::StatusCode, routing::get};
use hawser_daemon::{config as configuration, control, failure::Failure, schema};
use serde::Serialize;

use crate::{config::Config, result::LoadResult, sender::Stop, trial::Trial};

/// Schemas of this role.
pub const SCHEMAS: &[schema::Entry] = &[
    ("load-config", schema::of::<Config>),
    ("load-result", schema::of::<LoadResult>),
    ("load-status", schema::of::<Status>),
];

const EXAMPLES: &str = "\
Examples:
  hawserd load --config load.json --check          check the configuration and exit
  hawserd load --config load.json                  run the trial, write the result to standard output
  hawserd load --config meter.json --output r.json count until SIGTERM, then write the result
";

/// Sends test frames and counts those that arrive: lost, duplicated, reordered, late.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Configuration file (JSON; `hawserd schema load-config` describes it)
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Write the result to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Check the configuration and exit
    #[arg(long)]
    check: bool,
}

/// Response to `GET /v1/status`.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub(crate) struct Status {
    version: &'static str,
    role: &'static str,
    run: u16,
    uptime_s: f64,
    /// Whether frames are counted.
    ready: bool,
}

/// Runs one trial.
pub fn run(args: &Args) -> Result<(), Failure> {
    let config = configuration::load(&args.config, config::parse)?;
    if args.check {
        return Ok(());
    }
    let listener = config.control.as_deref().map(control::bind).transpose();
    let listener = listener.context("control socket")?;
    let trial = Arc::new(Trial::open(&config).map_err(|error| error.at(&args.config))?);
    let stop = Arc::new(Stop::default());
    let server = if let Some(listener) = listener {
        let stop = Arc::clone(&stop);
        let router = router(Arc::clone(&trial), config.run);
        Some(control::serve(listener, router, move || stop.set()).context("control API")?)
    } else {
        stop_on_signal(Arc::clone(&stop)).context("signals")?;
        None
    };
    let result = trial.run(&stop).and_then(|()| trial.result());
    if let Some(server) = server {
        server.stop();
    }
    Ok(write(&result?, args.output.as_deref())?)
}

/// Sets `stop` on SIGTERM or SIGINT.
fn stop_on_signal(stop: Arc<Stop>) -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut terminate, mut interrupt) = runtime.block_on(async {
        io::Result::Ok((signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?))
    })?;
    thread::Builder::new().name("signals".into()).spawn(move || {
        runtime.block_on(async {
            tokio::select! { _ = terminate.recv() => (), _ = interrupt.recv() => () }
        });
        stop.set();
    })?;
    Ok(())
}

#[derive(Clone)]
struct Api {
    trial: Arc<Trial>,
    run: u16,
    started: Instant,
}

fn router(trial: Arc<Trial>, run: u16) -> Router {
    Router::new()
        .route("/v1/status", get(status))
        .route("/v1/counters", get(counters))
        .with_state(Api { trial, run, started: Instant::now() })
}

async fn status(State(api): State<Api>) -> Json<Status> {
    Json(Status {
        version: env!("CARGO_PKG_VERSION"),
        role: "load",
        run: api.run,
        uptime_s: api.started.elapsed().as_secs_f64(),
        ready: true,
    })
}

async fn counters(State(api): State<Api>) -> Result<Json<LoadResult>, (StatusCode, String)> {
    let failed = |error: anyhow::Error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string());
    api.trial.result().map(Json).map_err(failed)
}

/// Writes the result to standard output, or atomically to a file.
fn write(result: &LoadResult, output: Option<&Path>) -> anyhow::Result<()> {
    let text = serde_json::to_string(result)?;
    let Some(path) = output else {
        return writeln!(io::stdout(), "{text}").context("standard output");
    };
    let unfinished = path.with_extension("unfinished");
    fs::write(&unfinished, text)
        .and_then(|()| fs::rename(&unfinished, path))
        .with_context(|| path.display().to_string())
}
