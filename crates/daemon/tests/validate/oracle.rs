//! The errors that jsonschema finds, in our words.

use hawser_daemon::config::FieldError;
use jsonschema::{
    ValidationError, Validator,
    error::{TypeKind, ValidationErrorKind as Kind},
    paths::LocationSegment,
};
use serde_json::Value;

/// A validator of one schema.
pub(super) fn validator(schema: &Value) -> Validator {
    jsonschema::options().should_validate_formats(true).build(schema).unwrap()
}

pub(super) fn violations(validator: &Validator, value: &Value) -> Vec<FieldError> {
    validator.iter_errors(value).flat_map(|error| explain(&error)).collect()
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
