//! How a role ends when it cannot do its work, and the exit code that says so.

use std::process::ExitCode;

use crate::config;

/// Why the process ends.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// What was asked for cannot be: exit code 2.
    #[error(transparent)]
    Config(#[from] config::Error),
    /// The machine lacks something: exit code 3.
    #[error("this machine lacks {0}")]
    Lacking(String),
    /// Anything else: exit code 1.
    #[error("{0:#}")]
    Other(#[from] anyhow::Error),
}

impl Failure {
    /// Says on standard error what happened, and gives the exit code.
    #[must_use]
    #[allow(clippy::print_stderr)] // the one place where the process says why it ends
    pub fn report(self) -> ExitCode {
        eprintln!("hawserd: {self}");
        match self {
            Self::Config(_) => ExitCode::from(2),
            Self::Lacking(_) => ExitCode::from(3),
            Self::Other(_) => ExitCode::FAILURE,
        }
    }
}
