//! What is wrong with a document: the fields at fault, as messages and as JSON.

use std::fmt::{self, Display};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

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
