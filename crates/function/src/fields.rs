//! Helpers that report errors in fields of a configuration.

use std::collections::HashMap;

use hawser_daemon::config::FieldError;

/// Reports values of a field that occur more than once in a list.
pub(crate) fn repeated(
    values: impl Iterator<Item = String>,
    list: &str,
    field: &str,
) -> Vec<FieldError> {
    let mut first: HashMap<String, usize> = HashMap::new();
    let mut errors = Vec::new();
    for (at, value) in values.enumerate() {
        if let Some(earlier) = first.get(&value) {
            let expected = format!("another than {list}[{earlier}].{field}");
            errors.push(FieldError::new(&format!("{list}[{at}].{field}"), value, expected));
        } else {
            first.insert(value, at);
        }
    }
    errors
}

/// Prefixes an error's field with the place of its part of the document.
pub(crate) fn within(place: &str, error: FieldError) -> FieldError {
    FieldError { field: format!("{place}.{}", error.field), ..error }
}
