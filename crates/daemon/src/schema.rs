//! JSON Schemas of configurations and of the control API.

use schemars::{JsonSchema, Schema, generate::SchemaSettings};

/// A schema's name, and how it is made.
pub type Entry = (&'static str, fn() -> Schema);

/// The schema of a type, as it is read and written.
#[must_use]
pub fn of<T: JsonSchema>() -> Schema {
    SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>()
}
