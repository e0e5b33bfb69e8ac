//! Role `gateway`: the multipath agent (MPA) between a branch's TUN device and the other branches.

mod config;

use std::path::PathBuf;

use crate::{config::load, failure::Failure, schema};

/// Schemas of this role.
pub(crate) const SCHEMAS: &[schema::Entry] = &[("gateway-config", schema::of::<config::Document>)];

const EXAMPLES: &str = "\
Examples:
  hawserd gateway --config gw1.json --check   say whether the configuration is good, and end
  hawserd gateway --config gw1.json           run until SIGTERM
  curl --unix-socket gw1.sock http://gw/v1/status
";

/// Carries IP packets to other branches over Multipath TCP or IP in IP.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Configuration file (JSON; `hawserd schema gateway-config` describes it)
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Only say whether the configuration is good
    #[arg(long)]
    check: bool,
}

/// Runs the gateway until it is told to stop.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let config = load(&args.config, config::parse)?;
    if args.check {
        return Ok(());
    }
    Err(anyhow::anyhow!("branch {}: no event loop yet", config.document.branch).into())
}
