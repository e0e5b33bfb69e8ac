//! The daemon that moves packets: one event loop a role.

mod schema;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use hawser_daemon::failure::Failure;

/// Moves packets for Hawser: each role is one process with one event loop and one control socket.
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
        Role::Schema(args) => schema::run(&args),
    };
    result.map_or_else(Failure::report, |()| ExitCode::SUCCESS)
}

/// Log lines go to standard error; `RUST_LOG` chooses which.
fn start_log() {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_env_filter(filter).init();
}
