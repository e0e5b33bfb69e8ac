//! `hawserd schema NAME`: the JSON Schemas of configurations and of the control API.

use std::io::{self, Write};

use anyhow::Context;
use clap::builder::PossibleValuesParser;
use hawser_daemon::{failure::Failure, schema::Entry};

/// All schemas of all roles.
fn entries() -> impl Iterator<Item = &'static Entry> {
    hawser_gateway::SCHEMAS
        .iter()
        .chain(hawser_function::SCHEMAS)
        .chain(hawser_wan::SCHEMAS)
        .chain(hawser_load::SCHEMAS)
}

/// Prints the JSON Schema of a configuration or of a response of the control API.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Name of the schema
    #[arg(value_parser = PossibleValuesParser::new(entries().map(|(name, _)| *name)))]
    name: String,
}

/// Writes one schema to standard output.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let found = entries().find(|(name, _)| *name == args.name);
    let (_, make) = found.with_context(|| format!("there is no schema {}", args.name))?;
    let text = serde_json::to_string_pretty(&make()).context("a schema is JSON")?;
    writeln!(io::stdout(), "{text}").context("standard output")?;
    Ok(())
}
