//! Configurations: JSON text becomes a typed value, or a list of all that is wrong with it.

use std::{
    fmt::{self, Display},
    fs, io,
    path::{Path, PathBuf},
};

use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{schema, validate::violations};

/// Why a configuration file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("{path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// It is not JSON; the place is in the message.
    #[error("{path}: not JSON: {source}", path = path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// What is wrong, with line and column.
        source: serde_json::Error,
    },
    /// It is JSON, but not a configuration.
    #[error("{path}: {invalid}", path = path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        invalid: Invalid,
    },
}

/// One thing wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FieldError {
    /// Where, such as `peers[0].id`; empty for the whole document.
    pub field: String,
    /// What stands there; null where nothing does.
    pub found: Value,
    /// What may stand there.
    pub expected: String,
}

impl FieldError {
    /// An error at `field`, where `found` stands instead of what was expected.
    #[must_use]
    pub fn new(field: &str, found: impl Into<Value>, expected: impl Into<String>) -> Self {
        Self { field: field.into(), found: found.into(), expected: expected.into() }
    }
}

impl Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let field = if self.field.is_empty() { "the document" } else { &self.field };
        match &self.found {
            Value::Null => write!(f, "{field}: found nothing, expected {}", self.expected),
            found => write!(f, "{field}: found {found}, expected {}", self.expected),
        }
    }
}

/// All that is wrong with a configuration; never empty.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, thiserror::Error)]
pub struct Invalid {
    /// In the order of the document.
    pub errors: Vec<FieldError>,
}

impl Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.errors.as_slice() {
            [one] => write!(f, "{one}"),
            many => {
                write!(f, "{} errors", many.len())?;
                many.iter().try_for_each(|error| write!(f, "\n  {error}"))
            }
        }
    }
}

/// Reads a configuration file and turns it into a `T` with `parse`.
pub fn load<T>(path: &Path, parse: impl FnOnce(&Value) -> Result<T, Invalid>) -> Result<T, Error> {
    let path = || path.to_path_buf();
    let text = fs::read_to_string(path()).map_err(|source| Error::Read { path: path(), source })?;
    let value =
        serde_json::from_str(&text).map_err(|source| Error::Syntax { path: path(), source })?;
    parse(&value).map_err(|invalid| Error::Invalid { path: path(), invalid })
}

/// Checks a document against the schema of `T`, so that all errors come at once, and reads it.
pub fn typed<T: JsonSchema + DeserializeOwned>(value: &Value) -> Result<T, Invalid> {
    let errors = violations(&schema::of::<T>().to_value(), value);
    if !errors.is_empty() {
        return Err(Invalid { errors });
    }
    T::deserialize(value).map_err(|error| Invalid {
        errors: vec![FieldError::new("", value.clone(), error.to_string())],
    })
}
