//! Why a node cannot be opened or changed.

use std::{
    io,
    path::{Path, PathBuf},
};

use hawser_daemon::{
    config::{self, FieldError, Invalid},
    failure::Failure,
};

/// Why a node cannot be opened or changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The configuration is invalid.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The kernel rejected the program or a map.
    #[error(transparent)]
    Bpf(#[from] hawser_bpf::Error),
    /// A file cannot be read or written.
    #[error("{path}: {source}", path = path.display())]
    File { path: PathBuf, source: io::Error },
}

impl From<FieldError> for Error {
    fn from(error: FieldError) -> Self {
        Self::Invalid(Invalid { errors: vec![error] })
    }
}

impl Error {
    /// The failure of the process, with `file` as its configuration.
    pub(crate) fn into_failure(self, file: &Path) -> Failure {
        match self {
            Self::Invalid(invalid) => config::Error::Invalid { path: file.into(), invalid }.into(),
            Self::Bpf(error) if error.is_denied() => {
                Failure::Lacking("the right to load eBPF programs: run as root".into())
            }
            error => anyhow::Error::from(error).into(),
        }
    }
}
