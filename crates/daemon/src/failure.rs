//! Failures of a process and their exit codes.

use std::process::ExitCode;

use crate::config;

/// A failure that ends the process.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The input is invalid: exit code 2.
    #[error(transparent)]
    Config(#[from] config::Error),
    /// The machine lacks something: exit code 3.
    #[error("this machine lacks {0}")]
    Lacking(String),
    /// Any other failure: exit code 1.
    #[error("{0:#}")]
    Other(#[from] anyhow::Error),
}

impl Failure {
    /// Prints the failure to standard error; returns the exit code.
    #[must_use]
    #[allow(clippy::print_stderr)] // the only message that does not go to the log
    pub fn report(self) -> ExitCode {
        eprintln!("hawserd: {self}");
        match self {
            Self::Config(_) => ExitCode::from(2),
            Self::Lacking(_) => ExitCode::from(3),
            Self::Other(_) => ExitCode::FAILURE,
        }
    }
}
