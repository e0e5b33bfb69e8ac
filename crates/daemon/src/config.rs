//! Configurations: JSON text becomes a typed value, or a list of all that is wrong with it.

use std::{
    fmt::{self, Display},
    fs, io,
    path::{Path, PathBuf},
};

use jsonschema::{
    ValidationError,
    error::{TypeKind, ValidationErrorKind as Kind},
    paths::LocationSegment,
};
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::schema;

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

fn violations(schema: &Value, value: &Value) -> Vec<FieldError> {
    match jsonschema::options().should_validate_formats(true).build(schema) {
        Ok(validator) => validator.iter_errors(value).flat_map(|error| explain(&error)).collect(),
        Err(error) => vec![FieldError::new("", Value::Null, format!("a usable schema ({error})"))],
    }
}

/// One error of the validator in our words; alternatives are told by the one that came closest.
fn explain(error: &ValidationError<'_>) -> Vec<FieldError> {
    match error.kind() {
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
            let closest =
                context.iter().filter(|errors| !only_type(errors)).min_by_key(|e| e.len());
            let closest = closest.or(context.first());
            closest.into_iter().flatten().flat_map(explain).collect()
        }
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            unexpected.iter().map(|name| unknown_field(error, name)).collect()
        }
        Kind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            vec![FieldError::new(
                &join(&place(error), name),
                Value::Null,
                "a value (it is required)",
            )]
        }
        kind => {
            vec![FieldError::new(&place(error), error.instance().as_ref().clone(), expected(kind))]
        }
    }
}

/// Whether an alternative was refused for its type alone, as `null` is for a value.
fn only_type(errors: &[ValidationError<'_>]) -> bool {
    matches!(errors, [one] if matches!(one.kind(), Kind::Type { .. }))
}

fn unknown_field(error: &ValidationError<'_>, name: &str) -> FieldError {
    let found = error.instance().get(name).cloned().unwrap_or(Value::Null);
    FieldError::new(&join(&place(error), name), found, "no field of this name")
}

fn expected(kind: &Kind) -> String {
    match kind {
        Kind::Type { kind: TypeKind::Single(kind) } => format!("a value of type {kind}"),
        Kind::Type { kind: TypeKind::Multiple(kinds) } => {
            let names: Vec<_> = kinds.iter().map(|kind| kind.to_string()).collect();
            format!("a value of type {}", names.join(" or "))
        }
        Kind::Minimum { limit } => format!("at least {limit}"),
        Kind::Maximum { limit } => format!("at most {limit}"),
        Kind::MinItems { limit } => format!("at least {limit} items"),
        Kind::MaxItems { limit } => format!("at most {limit} items"),
        Kind::MinLength { limit } => format!("at least {limit} characters"),
        Kind::MaxLength { limit } => format!("at most {limit} characters"),
        Kind::Pattern { pattern } => format!("text of the form {pattern}"),
        Kind::Format { format } => format!("an address of the form {format}"),
        Kind::Constant { expected_value } => expected_value.to_string(),
        Kind::Enum { options } => options.as_array().map_or_else(
            || options.to_string(),
            |all| all.iter().map(Value::to_string).collect::<Vec<_>>().join(" or "),
        ),
        other => format!("what the schema's `{}` allows", other.keyword()),
    }
}

/// The validator's location in the notation of the messages: `peers[0].id`.
fn place(error: &ValidationError<'_>) -> String {
    error.instance_path().into_iter().fold(String::new(), |path, segment| match segment {
        LocationSegment::Property(name) => join(&path, &name),
        LocationSegment::Index(index) => format!("{path}[{index}]"),
    })
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.into() } else { format!("{path}.{name}") }
}
