//! Every document is judged as a complete validator judges it.

#![allow(clippy::indexing_slicing, clippy::unwrap_used)] // helpers of a test are not known as such

mod documents;
mod oracle;

use std::{fs, path::Path, sync::LazyLock};

use hawser_daemon::{
    config::FieldError,
    validate::{unknown_keywords, violations},
};
use jsonschema::Validator;
use proptest::prelude::*;
use serde_json::Value;

use self::documents::Documents;

/// The schemas of all roles, with their names.
fn schemas() -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas");
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap());
    let schemas = files.map(|file| {
        let name = file.file_name().into_string().unwrap();
        (name, serde_json::from_slice(&fs::read(file.path()).unwrap()).unwrap())
    });
    schemas.filter(|(name, _)| !OTHERS.contains(&name.as_str())).collect()
}

/// What programs in Python read or write.
const OTHERS: [&str; 3] =
    ["workflow.schema.json", "openflow-config.schema.json", "report.schema.json"];

#[test]
fn every_keyword_is_understood() {
    let schemas = schemas();
    assert!(schemas.len() >= 19);
    for (name, schema) in schemas {
        assert_eq!(unknown_keywords(&schema), [""; 0], "{name}");
    }
}

fn sorted(mut errors: Vec<FieldError>) -> Vec<FieldError> {
    errors.sort_by_cached_key(ToString::to_string);
    errors
}

proptest! {
    #[test]
    fn errors_are_those_of_a_complete_validator(seed: u64, mistakes in 0_u64..12) {
        static SCHEMAS: LazyLock<Vec<(String, Value, Validator)>> = LazyLock::new(|| {
            let all = schemas().into_iter();
            all.map(|(name, schema)| (name, schema.clone(), oracle::validator(&schema))).collect()
        });
        for (name, schema, validator) in SCHEMAS.iter() {
            let document = Documents::new(schema, seed, mistakes).document();
            let ours = sorted(violations(schema, &document));
            let theirs = sorted(oracle::violations(validator, &document));
            prop_assert_eq!(ours, theirs, "{}: {}", name, document);
        }
    }
}
