//! Validates documents against JSON Schemas (draft 2020-12) and reports all errors at once.
//!
//! Only [`KEYWORDS`] are supported, which are those that the schemas of our own types contain. Tests compare the result
//! with a complete validator, which the program does not use because it would double the build time.

use std::{
    cell::RefCell,
    cmp::Ordering,
    collections::BTreeMap,
    net::{Ipv4Addr, Ipv6Addr},
};

use regex_lite::Regex;
use serde_json::{Map, Number, Value};

use crate::invalid::FieldError;

type Schema = Map<String, Value>;

/// The supported keywords, including annotations.
const KEYWORDS: [&str; 24] = [
    "$defs",
    "$ref",
    "$schema",
    "additionalProperties",
    "anyOf",
    "const",
    "default",
    "description",
    "enum",
    "exclusiveMinimum",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maximum",
    "minItems",
    "minLength",
    "minimum",
    "oneOf",
    "pattern",
    "prefixItems",
    "properties",
    "required",
    "title",
];

/// All errors of a document.
#[must_use]
pub fn violations(schema: &Value, document: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    Checker { root: schema, patterns: RefCell::default() }.check(schema, "", document, &mut errors);
    errors.into_iter().flat_map(Violation::flatten).collect()
}

/// Unsupported keywords in `schema` and its subschemas.
#[must_use]
pub fn unknown_keywords(schema: &Value) -> Vec<String> {
    let Value::Object(schema) = schema else { return Vec::new() };
    let known = |name: &str| name == "type" || KEYWORDS.contains(&name);
    let own = schema.keys().filter(|name| !known(name)).cloned();
    own.chain(subschemas(schema).flat_map(unknown_keywords)).collect()
}

fn subschemas(schema: &Schema) -> impl Iterator<Item = &Value> {
    let named =
        ["$defs", "properties"].into_iter().filter_map(|name| schema.get(name)?.as_object());
    let listed = ["anyOf", "oneOf", "prefixItems"].into_iter().flat_map(|name| list(schema, name));
    let single = ["items", "additionalProperties"].into_iter().filter_map(|name| schema.get(name));
    named.flat_map(Map::values).chain(listed).chain(single)
}

/// The errors of one keyword.
enum Violation {
    /// The value has the wrong type.
    Type(FieldError),
    /// Other errors. There are several if a document has several unknown fields.
    Fields(Vec<FieldError>),
    /// No alternative matches; the errors of each.
    Alternatives(Vec<Vec<Violation>>),
}

impl Violation {
    fn new(field: &str, found: &Value, expected: impl Into<String>) -> Self {
        Self::Fields(vec![FieldError::new(field, found.clone(), expected)])
    }

    /// The errors to report; of alternatives, those of the closest.
    fn flatten(self) -> Vec<FieldError> {
        match self {
            Self::Type(error) => vec![error],
            Self::Fields(errors) => errors,
            Self::Alternatives(mut all) => {
                let fitting = all.iter().enumerate().filter(|(_, errors)| !only_type(errors));
                let closest = fitting.min_by_key(|(_, errors)| errors.len());
                let index = closest.map_or(0, |(index, _)| index);
                all.swap_remove(index).into_iter().flat_map(Self::flatten).collect()
            }
        }
    }
}

/// Whether an alternative fails by its type alone, as `null` does for any value.
fn only_type(errors: &[Violation]) -> bool {
    matches!(errors, [Violation::Type(_)])
}

struct Checker<'a> {
    root: &'a Value,
    /// Compiled patterns.
    patterns: RefCell<BTreeMap<String, Option<Regex>>>,
}

impl Checker<'_> {
    /// Adds the errors of the value `found` at `place`.
    fn check(&self, schema: &Value, place: &str, found: &Value, errors: &mut Vec<Violation>) {
        let Value::Object(schema) = schema else { return };
        errors.extend(wrong_type(schema, place, found));
        errors.extend(wrong_value(schema, found).map(|what| Violation::new(place, found, what)));
        match found {
            Value::Number(number) => {
                let limits = beyond_limits(schema, number);
                errors.extend(limits.map(|what| Violation::new(place, found, what)));
            }
            Value::String(text) => {
                let wrong = self.wrong_text(schema, text).into_iter();
                errors.extend(wrong.map(|what| Violation::new(place, found, what)));
            }
            Value::Array(items) => {
                let wrong = wrong_size(schema, "Items", items.len(), "items");
                errors.extend(wrong.map(|what| Violation::new(place, found, what)));
                self.check_items(schema, place, items, errors);
            }
            Value::Object(fields) => self.check_fields(schema, place, fields, errors),
            Value::Null | Value::Bool(_) => (),
        }
        self.check_alternatives(schema, place, found, errors);
        if let Some(target) = self.target(schema) {
            self.check(target, place, found, errors);
        }
    }

    /// The target of `$ref`.
    fn target(&self, schema: &Schema) -> Option<&Value> {
        self.root.pointer(schema.get("$ref")?.as_str()?.strip_prefix('#')?)
    }

    fn check_items(
        &self,
        schema: &Schema,
        place: &str,
        items: &[Value],
        errors: &mut Vec<Violation>,
    ) {
        let first = list(schema, "prefixItems");
        let rest = std::iter::repeat(schema.get("items").unwrap_or(&Value::Bool(true)));
        for ((index, item), schema) in items.iter().enumerate().zip(first.iter().chain(rest)) {
            self.check(schema, &format!("{place}[{index}]"), item, errors);
        }
    }

    fn check_fields(
        &self,
        schema: &Schema,
        place: &str,
        fields: &Schema,
        errors: &mut Vec<Violation>,
    ) {
        let required = list(schema, "required").iter().filter_map(Value::as_str);
        let missing = required.filter(|name| !fields.contains_key(*name));
        let missing = missing.map(|name| join(place, name));
        errors.extend(
            missing.map(|name| Violation::new(&name, &Value::Null, "a value (it is required)")),
        );
        let known = schema.get("properties").and_then(Value::as_object);
        let other = schema.get("additionalProperties").unwrap_or(&Value::Bool(true));
        let mut unknown = Vec::new();
        for (name, value) in fields {
            match known.and_then(|known| known.get(name)).unwrap_or(other) {
                Value::Bool(false) => {
                    let field = join(place, name);
                    unknown.push(FieldError::new(&field, value.clone(), "no field of this name"));
                }
                schema => self.check(schema, &join(place, name), value, errors),
            }
        }
        if !unknown.is_empty() {
            errors.push(Violation::Fields(unknown));
        }
    }

    fn wrong_text(&self, schema: &Schema, text: &str) -> Vec<String> {
        let size = wrong_size(schema, "Length", text.chars().count(), "characters");
        let pattern = string(schema, "pattern").filter(|pattern| !self.matches(pattern, text));
        let format = string(schema, "format").filter(|format| !is_of_format(text, format));
        let pattern = pattern.map(|pattern| format!("text of the form {pattern}"));
        let format = format.map(|format| format!("an address of the form {format}"));
        size.chain(pattern).chain(format).collect()
    }

    fn matches(&self, pattern: &str, text: &str) -> bool {
        let mut known = self.patterns.borrow_mut();
        let regex = known.entry(pattern.into()).or_insert_with(|| Regex::new(pattern).ok());
        regex.as_ref().is_some_and(|regex| regex.is_match(text))
    }

    /// `anyOf` and `oneOf`.
    fn check_alternatives(
        &self,
        schema: &Schema,
        place: &str,
        found: &Value,
        errors: &mut Vec<Violation>,
    ) {
        for keyword in ["anyOf", "oneOf"] {
            let alternatives = list(schema, keyword).iter().map(|schema| {
                let mut errors = Vec::new();
                self.check(schema, place, found, &mut errors);
                errors
            });
            let alternatives: Vec<_> = alternatives.collect();
            match alternatives.iter().filter(|errors| errors.is_empty()).count() {
                0 if !alternatives.is_empty() => errors.push(Violation::Alternatives(alternatives)),
                2.. if keyword == "oneOf" => {
                    errors.push(Violation::new(place, found, "what the schema's `oneOf` allows"));
                }
                _ => (),
            }
        }
    }
}

/// JSON types, in the order of messages.
const TYPES: [&str; 7] = ["null", "boolean", "integer", "number", "string", "array", "object"];

fn wrong_type(schema: &Schema, place: &str, found: &Value) -> Option<Violation> {
    let allowed = schema.get("type")?;
    let allows = |name: &str| match allowed {
        Value::Array(several) => several.iter().any(|one| one == name),
        one => one == name,
    };
    let types: Vec<_> = TYPES.into_iter().filter(|name| allows(name)).collect();
    if types.iter().any(|name| is_of_type(found, name)) {
        return None;
    }
    let expected = format!("a value of type {}", types.join(" or "));
    Some(Violation::Type(FieldError::new(place, found.clone(), expected)))
}

fn is_of_type(found: &Value, name: &str) -> bool {
    match found {
        Value::Null => name == "null",
        Value::Bool(_) => name == "boolean",
        Value::Number(number) => name == "number" || name == "integer" && is_integer(number),
        Value::String(_) => name == "string",
        Value::Array(_) => name == "array",
        Value::Object(_) => name == "object",
    }
}

/// A number without a fraction is an integer, even if written as 1.0.
fn is_integer(number: &Number) -> bool {
    number.as_i128().is_some() || number.as_f64().is_some_and(|value| value.fract() == 0.0)
}

/// `const` and `enum`: what is allowed instead.
fn wrong_value(schema: &Schema, found: &Value) -> impl Iterator<Item = String> {
    let constant = schema.get("const").filter(|value| *value != found).map(Value::to_string);
    let options = schema.get("enum").and_then(Value::as_array);
    let options = options.filter(|options| !options.contains(found));
    let options =
        options.map(|all| all.iter().map(Value::to_string).collect::<Vec<_>>().join(" or "));
    constant.into_iter().chain(options)
}

fn beyond_limits(schema: &Schema, number: &Number) -> impl Iterator<Item = String> {
    let beyond = |keyword: &str, wrong: &[Ordering], words: &str| {
        let limit = schema.get(keyword)?.as_number()?;
        let is_wrong = wrong.contains(&compare(number, limit)?);
        is_wrong.then(|| format!("{words} {limit}"))
    };
    let exclusive = beyond("exclusiveMinimum", &[Ordering::Less, Ordering::Equal], "")
        .map(|_| "what the schema's `exclusiveMinimum` allows".into());
    let low = beyond("minimum", &[Ordering::Less], "at least");
    let high = beyond("maximum", &[Ordering::Greater], "at most");
    low.into_iter().chain(high).chain(exclusive)
}

fn compare(left: &Number, right: &Number) -> Option<Ordering> {
    match (left.as_i128(), right.as_i128()) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        _ => left.as_f64()?.partial_cmp(&right.as_f64()?),
    }
}

fn is_of_format(text: &str, format: &str) -> bool {
    match format {
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        _ => true,
    }
}

/// `minItems` and the like.
fn wrong_size(schema: &Schema, of: &str, size: usize, unit: &str) -> impl Iterator<Item = String> {
    let size = u64::try_from(size).unwrap_or(u64::MAX);
    let limit = |bound: &str| schema.get(&format!("{bound}{of}")).and_then(Value::as_u64);
    let low = limit("min").filter(|limit| size < *limit);
    let high = limit("max").filter(|limit| size > *limit);
    let low = low.map(|limit| format!("at least {limit} {unit}"));
    low.into_iter().chain(high.map(|limit| format!("at most {limit} {unit}")))
}

fn string<'a>(schema: &'a Schema, keyword: &str) -> Option<&'a str> {
    schema.get(keyword)?.as_str()
}

fn list<'a>(schema: &'a Schema, keyword: &str) -> &'a [Value] {
    schema.get(keyword).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Appends a field to a position, in the notation `peers[0].id`.
fn join(place: &str, name: &str) -> String {
    if place.is_empty() { name.into() } else { format!("{place}.{name}") }
}
