//! Errors of fields that configurations of several roles have.

use std::collections::HashMap;

use hawser_daemon::config::FieldError;

/// Values of a field that stand twice in a list.
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

/// An error of a part, with the place of the part.
pub(crate) fn within(place: &str, error: FieldError) -> FieldError {
    FieldError { field: format!("{place}.{}", error.field), ..error }
}
