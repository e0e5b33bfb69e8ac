//! Reads configuration files: JSON into a typed value, or a list of all errors.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use crate::invalid::{FieldError, Invalid};
use crate::{schema, validate::violations};

/// Why a configuration file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("{path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the kernel.
        source: io::Error,
    },
    /// It is not JSON. The message contains the position.
    #[error("{path}: not JSON: {source}", path = path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The error, with line and column.
        source: serde_json::Error,
    },
    /// It is JSON but not a valid configuration.
    #[error("{path}: {invalid}", path = path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The errors.
        invalid: Invalid,
    },
}

/// Reads a configuration file and parses it with `parse`.
pub fn load<T>(path: &Path, parse: impl FnOnce(&Value) -> Result<T, Invalid>) -> Result<T, Error> {
    let path = || path.to_path_buf();
    let text = fs::read_to_string(path()).map_err(|source| Error::Read { path: path(), source })?;
    let value =
        serde_json::from_str(&text).map_err(|source| Error::Syntax { path: path(), source })?;
    parse(&value).map_err(|invalid| Error::Invalid { path: path(), invalid })
}

/// Validates a document against the schema of `T`, which reports all errors at once, and deserializes it.
pub fn typed<T: JsonSchema + DeserializeOwned>(value: &Value) -> Result<T, Invalid> {
    let errors = violations(&schema::of::<T>().to_value(), value);
    if !errors.is_empty() {
        return Err(Invalid { errors });
    }
    T::deserialize(value).map_err(|error| Invalid {
        errors: vec![FieldError::new("", value.clone(), error.to_string())],
    })
}
