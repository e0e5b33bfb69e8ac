//! Errors of a document by field, as messages and as JSON.

use std::fmt::{self, Display};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// An error in one field of a configuration.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FieldError {
    /// The field, such as `peers[0].id`; empty for the whole document.
    pub field: String,
    /// Its value; null if it is missing.
    pub found: Value,
    /// What is allowed.
    pub expected: String,
}

impl FieldError {
    /// An error at `field`, whose value is `found` instead of what was expected.
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

/// All errors of a configuration; never empty.
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
