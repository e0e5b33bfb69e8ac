//! Old names of configuration fields, accepted in this version with a warning.

use serde_json::Value;

/// A field that was renamed.
#[derive(Clone, Copy, Debug)]
pub struct Renamed {
    /// The objects that have the field, as a path from the document such as `paths[].reordering`, where `[]`
    /// stands for all elements of an array.
    pub object: &'static str,
    /// Old name of the field.
    pub old: &'static str,
    /// New name of the field.
    pub new: &'static str,
}

/// Returns a copy of a document with new names in place of old ones, and logs a warning for each field.
///
/// If an object has both names, the old one stays, and is refused later as an unknown field.
#[must_use]
pub fn accept_old_names(document: &Value, renamed: &[Renamed]) -> Value {
    let mut document = document.clone();
    for field in renamed {
        if replace(&mut document, field.object, field) > 0 {
            let Renamed { object, old, new } = field;
            tracing::warn!("configuration field {object}.{old} was renamed to {object}.{new}");
        }
    }
    document
}

/// Renames a field in all objects at `path` below `value`. Returns in how many.
fn replace(value: &mut Value, path: &str, field: &Renamed) -> usize {
    let (name, rest) = path.split_once('.').unwrap_or((path, ""));
    let (name, is_array) = name.strip_suffix("[]").map_or((name, false), |name| (name, true));
    let Some(child) = value.get_mut(name) else { return 0 };
    let children = match child {
        Value::Array(elements) if is_array => elements.as_mut_slice(),
        child if !is_array => std::slice::from_mut(child),
        _ => return 0,
    };
    let rename = |child: &mut Value| match rest {
        "" => usize::from(rename(child, field)),
        rest => replace(child, rest, field),
    };
    children.iter_mut().map(rename).sum()
}

/// Renames a field of one object. Returns whether the object had its old name alone.
fn rename(object: &mut Value, field: &Renamed) -> bool {
    let fields = object.as_object_mut().filter(|fields| !fields.contains_key(field.new));
    let Some(fields) = fields else { return false };
    let Some(value) = fields.remove(field.old) else { return false };
    fields.insert(field.new.to_owned(), value);
    true
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use serde_json::json;
    use tracing::{
        Event, Metadata, Subscriber,
        field::{Field, Visit},
        span,
    };

    use super::*;

    const RENAMED: [Renamed; 2] = [
        Renamed { object: "paths[].reordering", old: "by_us", new: "extra_delay_us" },
        Renamed { object: "receive", old: "groups", new: "streams" },
    ];

    /// Collects the messages of all events.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<String>>>);

    impl Subscriber for Log {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }
        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
        fn event(&self, event: &Event<'_>) {
            event.record(&mut self.clone());
        }
        fn enter(&self, _: &span::Id) {}
        fn exit(&self, _: &span::Id) {}
    }

    impl Visit for Log {
        fn record_debug(&mut self, _: &Field, value: &dyn std::fmt::Debug) {
            self.0.lock().unwrap().push(format!("{value:?}"));
        }
    }

    fn accepted(document: &Value) -> (Value, Vec<String>) {
        let log = Log::default();
        let guard = tracing::subscriber::set_default(log.clone());
        let accepted = accept_old_names(document, &RENAMED);
        drop(guard);
        let messages = log.0.lock().unwrap().clone();
        (accepted, messages)
    }

    #[test]
    fn an_old_name_is_replaced_and_warned_about() {
        let old = json!({
            "paths": [{"reordering": {"by_us": 3}}, {"reordering": null}, {"name": "p"}],
            "receive": {"groups": []},
        });
        let new = json!({
            "paths": [{"reordering": {"extra_delay_us": 3}}, {"reordering": null}, {"name": "p"}],
            "receive": {"streams": []},
        });
        let messages = [
            "configuration field paths[].reordering.by_us was renamed to paths[].reordering.extra_delay_us",
            "configuration field receive.groups was renamed to receive.streams",
        ];
        assert_eq!(accepted(&old), (new.clone(), messages.map(String::from).to_vec()));
        assert_eq!(accepted(&new), (new.clone(), vec![]));
    }

    #[test]
    fn both_names_at_once_stay() {
        let both = json!({"receive": {"groups": [], "streams": []}});
        assert_eq!(accepted(&both), (both.clone(), vec![]));
    }

    #[test]
    fn other_documents_stay() {
        for document in [json!(null), json!([1]), json!({"paths": 7, "receive": [{"groups": 1}]})] {
            assert_eq!(accepted(&document), (document.clone(), vec![]));
        }
    }
}
