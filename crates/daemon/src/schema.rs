//! JSON Schemas of configurations and of the control API.

use schemars::{JsonSchema, Schema, generate::SchemaSettings};

/// A schema's name and the function that generates it.
pub type Entry = (&'static str, fn() -> Schema);

/// Generates the schema of a type.
#[must_use]
pub fn of<T: JsonSchema>() -> Schema {
    SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>()
}
