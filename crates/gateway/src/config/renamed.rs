//! Old names of configuration fields, accepted in this version with a warning.

use serde_json::Value;

/// Section, old name and new name of each renamed field.
const RENAMED: [(&str, &str, &str); 1] = [("transport", "lane", "tcp_proxy")];

/// A field that has its old name in a document.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Renamed {
    /// Path with the old name, such as `transport.lane`.
    pub(super) old: String,
    /// Path with the new name.
    pub(super) new: String,
}

/// Replaces old names by new ones and returns the fields concerned. If a document has both names,
/// the old one stays, and is reported as an unknown field.
pub(super) fn replace_old_names(document: &mut Value) -> Vec<Renamed> {
    let mut renamed = Vec::new();
    for (section, old, new) in RENAMED {
        let fields = document.get_mut(section).and_then(Value::as_object_mut);
        let Some(fields) = fields.filter(|fields| !fields.contains_key(new)) else { continue };
        if let Some(value) = fields.remove(old) {
            fields.insert(new.to_owned(), value);
            let path = |name| format!("{section}.{name}");
            renamed.push(Renamed { old: path(old), new: path(new) });
        }
    }
    renamed
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{
        super::{
            parse,
            tests::{fields, sample},
        },
        *,
    };

    fn with(name: &str) -> Value {
        let tls = json!({"certificate": "a", "key": "b", "ca": "c"});
        let mut document = sample();
        document["transport"] = json!({"kind": "quic", "tls": tls});
        document["transport"][name] = json!({"II": "tcp"});
        document
    }

    #[test]
    fn an_old_name_is_accepted_with_a_warning() {
        for (section, old, new) in RENAMED {
            let mut document = with(old);
            assert_eq!(parse(&document).unwrap(), parse(&with(new)).unwrap());
            let [old, new] = [old, new].map(|name| format!("{section}.{name}"));
            assert_eq!(replace_old_names(&mut document), [Renamed { old, new }]);
            assert_eq!(replace_old_names(&mut document), [], "it has the new name now");
        }
    }

    #[test]
    fn the_new_name_alone_is_shown() {
        let shown = serde_json::to_value(parse(&with("lane")).unwrap().document).unwrap();
        assert_eq!(shown["transport"]["tcp_proxy"], json!({"II": "tcp"}));
        assert_eq!(shown["transport"].get("lane"), None);
    }

    #[test]
    fn both_names_at_once_are_refused() {
        let mut document = with("lane");
        document["transport"]["tcp_proxy"] = json!({"I": "tcp"});
        assert_eq!(fields(&document), ["transport.lane"]);
    }
}
