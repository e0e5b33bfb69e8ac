//! The daemon that carries packets. Each role is one process with one event loop.

mod schema;

use std::{env, process::ExitCode};

use clap::{Parser, Subcommand};
use hawser_daemon::failure::Failure;
use tracing_subscriber::{
    filter::{LevelFilter, Targets},
    fmt,
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

/// Carries packets for Hawser. Each role is one process with one event loop and one control socket.
#[derive(Parser)]
#[command(version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand)]
enum Role {
    Gateway(hawser_gateway::Args),
    Function(hawser_function::Args),
    Wan(hawser_wan::Args),
    Load(hawser_load::Args),
    Flows(hawser_ids::Args),
    Schema(schema::Args),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    start_log();
    let result = match cli.role {
        Role::Gateway(args) => hawser_gateway::run(&args),
        Role::Function(args) => hawser_function::run(&args),
        Role::Wan(args) => hawser_wan::run(&args),
        Role::Load(args) => hawser_load::run(&args),
        Role::Flows(args) => hawser_ids::run(&args),
        Role::Schema(args) => schema::run(&args),
    };
    result.map_or_else(Failure::report, |()| ExitCode::SUCCESS)
}

/// Starts the log on standard error. `RUST_LOG` filters it (`debug`, or `info,hawser_gateway=trace`).
fn start_log() {
    let filter = env::var("RUST_LOG").ok().and_then(|text| text.parse::<Targets>().ok());
    let filter = filter.unwrap_or_else(|| Targets::new().with_default(LevelFilter::INFO));
    let lines = fmt::layer().with_writer(std::io::stderr);
    tracing_subscriber::registry().with(lines).with(filter).init();
}
