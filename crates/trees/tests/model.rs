//! What a model says of flows, and which files are refused.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use aws_lc_rs::digest;
use hawser_trees::{Model, Refused};
use proptest::prelude::*;

const NAMES: [&str; 2] = ["packets", "bytes"];

/// A file around `model`, with its hash.
fn file(model: &str) -> Vec<u8> {
    let hash = digest::digest(&digest::SHA256, model.as_bytes());
    let hash: Vec<_> = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let hash = hash.concat();
    format!(r#"{{"sha256": "{hash}", "model": {model}}}"#).into_bytes()
}

/// A model of trees that say 0.9 of flows with more than 4.5 packets and at most 100 bytes, else 0.1.
fn model(trees: &str) -> String {
    format!(
        r#"{{"schema": 1, "name": "test", "version": "1", "features": ["bytes", "packets"],
            "combine": "mean", "threshold": 0.5, "training": {{}}, "trees": [{trees}]}}"#
    )
}

const TREE: &str = r#"{"feature": [1, -1, 0, -1, -1], "threshold": [4.5, 0, 100, 0, 0],
    "left": [1, 0, 3, 0, 0], "right": [2, 0, 4, 0, 0], "value": [0, 0.1, 0, 0.9, 0.1]}"#;

fn refused(bytes: &[u8]) -> String {
    Model::parse(bytes, &NAMES).unwrap_err().to_string()
}

#[test]
fn a_tree_compares_left_at_most_the_threshold() {
    let model = Model::parse(&file(&model(TREE)), &NAMES).unwrap();
    for (values, score) in
        [([4.5, 0.0], 0.1), ([5.0, 100.0], 0.9), ([5.0, 100.1], 0.1), ([f64::NAN, 0.0], 0.9)]
    {
        assert!((model.score(&values) - score).abs() < 1e-12, "{values:?}");
    }
}

#[test]
fn a_forest_is_the_mean_of_its_trees() {
    let always =
        r#"{"feature": [-1], "threshold": [0], "left": [0], "right": [0], "value": [0.5]}"#;
    let model = Model::parse(&file(&model(&format!("{always}, {TREE}"))), &NAMES).unwrap();
    assert!((model.score(&[9.0, 9.0]) - 0.7).abs() < 1e-12);
}

#[test]
fn boosted_trees_add_up_to_a_logistic_score() {
    let text = model(&TREE.replace("0.9", "3")).replace("\"mean\"", "\"logistic\", \"base\": -1");
    let model = Model::parse(&file(&text), &NAMES).unwrap();
    assert!((model.score(&[9.0, 9.0]) - 1.0 / (1.0 + (-2.0_f64).exp())).abs() < 1e-12);
}

#[test]
fn a_score_is_explained_by_its_comparisons() {
    let model = Model::parse(&file(&model(TREE)), &NAMES).unwrap();
    let steps = model.explain(&[9.0, 80.0]);
    let said: Vec<_> =
        steps.iter().map(|step| (step.feature.as_str(), step.is_above, step.value)).collect();
    assert_eq!(said, [("packets", true, 9.0), ("bytes", false, 80.0)]);
}

#[test]
fn a_changed_file_is_refused() {
    let mut bytes = file(&model(TREE));
    let at = bytes.len() - 5;
    bytes[at] ^= 1;
    assert!(!matches!(Model::parse(&bytes, &NAMES), Ok(_) | Err(Refused::Value { .. })));
}

#[test]
fn what_is_no_tree_is_refused_with_its_place() {
    for (from, to, message) in [
        ("[1, 0, 3, 0, 0]", "[0, 0, 3, 0, 0]", "trees.0.left.0: found 0, expected a node after 0"),
        ("[1, 0, 3, 0, 0]", "[1, 0, 2, 0, 0]", "trees.0.left.2: found 2"),
        ("[1, 0, 3, 0, 0]", "[1, 0, 9, 0, 0]", "trees.0.left.2: found 9"),
        ("[1, 0, 3, 0, 0]", "[1, 0, 3, 0]", "trees.0.left: found 4 numbers"),
        ("[1, -1, 0,", "[2, -1, 0,", "trees.0.feature.0: found 2"),
        ("0.9", "1.5", "trees.0.value.3: found 1.5"),
        ("\"bytes\"", "\"ports\"", "features.0: found \"ports\""),
        ("0.5,", "2,", "threshold: found 2"),
        ("\"schema\": 1", "\"schema\": 2", "schema: found 2, expected 1"),
        ("4.5", "1e999", "not a model"),
        ("4.5", "NaN", "not a model"),
    ] {
        let changed = model(TREE).replacen(from, to, 1);
        assert_ne!(changed, model(TREE));
        let found = refused(&file(&changed));
        assert!(found.starts_with(message), "{found}");
    }
}

#[test]
fn too_many_nodes_and_too_deep_trees_are_refused() {
    let leaves = 1 << 20;
    let many = format!(
        r#"{{"feature": [{0}-1], "threshold": [{1}0], "left": [{1}0], "right": [{1}0], "value": [{1}0]}}"#,
        "-1,".repeat(leaves),
        "0,".repeat(leaves)
    );
    assert!(refused(&file(&model(&many))).starts_with("trees: found more nodes"));
    assert!(refused(&file(&model(&chain(70)))).contains("expected at most 64 comparisons"));
    assert!(Model::parse(&file(&model(&chain(64))), &NAMES).is_ok());
    assert!(refused(&vec![b' '; hawser_trees::SIZE_MAX + 1]).contains("at most 64 MiB"));
}

/// A tree of `depth` comparisons, each with a leaf on its left.
fn chain(depth: u32) -> String {
    let list = |of: &dyn Fn(u32) -> i64| -> String {
        let numbers: Vec<_> = (0..=2 * depth).map(|at| of(at).to_string()).collect();
        numbers.join(",")
    };
    let is_leaf = |at: u32| at % 2 == 1 || at == 2 * depth;
    let child = |at: u32, by: u32| if is_leaf(at) { 0 } else { i64::from(at + by) };
    format!(
        r#"{{"feature": [{}], "threshold": [{}], "left": [{}], "right": [{}], "value": [{}]}}"#,
        list(&|at| if is_leaf(at) { -1 } else { 0 }),
        list(&|_| 0),
        list(&|at| child(at, 1)),
        list(&|at| child(at, 2)),
        list(&|_| 0),
    )
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Model::parse(&bytes, &NAMES);
    }

    /// Any numbers in the places of a tree: refused, or a model whose scores are probabilities.
    #[test]
    fn any_tree_is_refused_or_scores(
        rows in prop::collection::vec((-2_i32..3, -9_i32..9, 0_u32..8, 0_u32..8, 0_u32..12), 0..8),
        values in prop::array::uniform2(-10.0..10.0_f64),
    ) {
        let tree = format!(
            r#"{{"feature": {:?}, "threshold": {:?}, "left": {:?}, "right": {:?}, "value": {:?}}}"#,
            rows.iter().map(|row| row.0).collect::<Vec<_>>(),
            rows.iter().map(|row| row.1).collect::<Vec<_>>(),
            rows.iter().map(|row| row.2).collect::<Vec<_>>(),
            rows.iter().map(|row| row.3).collect::<Vec<_>>(),
            rows.iter().map(|row| f64::from(row.4) / 10.0).collect::<Vec<_>>(),
        );
        if let Ok(model) = Model::parse(&file(&model(&tree)), &NAMES) {
            prop_assert!((0.0..=1.0).contains(&model.score(&values)));
        }
    }
}
