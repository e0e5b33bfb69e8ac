//! Model files: JSON, checked whole before anything is scored.
//!
//! ```json
//! {"sha256": "<of the bytes of `model`>",
//!  "model": {"schema": 1, "name": "branches", "version": "2026-11-25", "features": ["total_fpackets", ...],
//!            "combine": "mean", "threshold": 0.5, "training": {...},
//!            "trees": [{"feature": [0, -1, -1], "threshold": [4.5, 0, 0], "left": [1, 0, 0],
//!                       "right": [2, 0, 0], "value": [0.4, 0.0, 0.9]}]}}
//! ```
//!
//! Node 0 is a tree's root. `feature` is an index into `features`, or -1 at a leaf; children come after
//! their parent. `combine: mean` averages the leaves, probabilities; `combine: logistic` adds them to
//! `base` and takes the logistic function of the sum, as boosted trees do.

use std::fmt::{Display, Write};

use aws_lc_rs::digest;
use serde::Deserialize;
use serde_json::value::RawValue;

/// Size of a file, bytes, at most.
pub const SIZE_MAX: usize = 64 << 20;
/// Nodes of all trees together, at most.
pub const NODES_MAX: usize = 1 << 20;
/// Trees of a model, at most.
pub const TREES_MAX: usize = 4096;
/// Comparisons on the way to a leaf, at most.
pub const DEPTH_MAX: u32 = 64;
/// The format that this version reads.
pub const SCHEMA: u32 = 1;

/// Why a model is refused.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// Not JSON, or not of this format.
    #[error("not a model: {0}")]
    Format(#[from] serde_json::Error),
    /// The file was changed or cut after it was written.
    #[error("sha256: found {found}, expected {expected}")]
    Hash {
        /// The hash of what was read.
        found: String,
        /// The hash that the file names.
        expected: String,
    },
    /// A value is not allowed.
    #[error("{place}: found {found}, expected {expected}")]
    Value {
        /// Where it stands.
        place: String,
        /// What stands there.
        found: String,
        /// What is allowed.
        expected: String,
    },
}

impl Refused {
    pub(crate) fn value(
        place: impl Into<String>,
        found: impl Display,
        expected: impl Into<String>,
    ) -> Self {
        Self::Value { place: place.into(), found: found.to_string(), expected: expected.into() }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope<'a> {
    sha256: String,
    #[serde(borrow)]
    model: &'a RawValue,
}

/// What a model file says.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Content {
    pub(crate) schema: u32,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) features: Vec<String>,
    pub(crate) combine: Combine,
    #[serde(default)]
    pub(crate) base: f64,
    pub(crate) threshold: f64,
    /// How it was trained, for people; not interpreted.
    #[serde(rename = "training")]
    pub(crate) _training: serde_json::Value,
    pub(crate) trees: Vec<Columns>,
}

/// How the leaves that a flow reaches become its score.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Combine {
    /// Their mean.
    Mean,
    /// The logistic function of the base and their sum.
    Logistic,
}

/// A tree, a column an array.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Columns {
    pub(crate) feature: Vec<i32>,
    pub(crate) threshold: Vec<f64>,
    pub(crate) left: Vec<u32>,
    pub(crate) right: Vec<u32>,
    pub(crate) value: Vec<f64>,
}

/// Reads a file and checks its size, hash and schema.
pub(crate) fn read(bytes: &[u8]) -> Result<Content, Refused> {
    if bytes.len() > SIZE_MAX {
        return Err(Refused::value("file", format!("{} bytes", bytes.len()), "at most 64 MiB"));
    }
    let envelope: Envelope<'_> = serde_json::from_slice(bytes)?;
    let found = hexadecimal(digest::digest(&digest::SHA256, envelope.model.get().as_bytes()));
    if found != envelope.sha256 {
        return Err(Refused::Hash { found, expected: envelope.sha256 });
    }
    let content: Content = serde_json::from_str(envelope.model.get())?;
    if content.schema != SCHEMA {
        return Err(Refused::value("schema", content.schema, SCHEMA.to_string()));
    }
    Ok(content)
}

fn hexadecimal(digest: digest::Digest) -> String {
    digest.as_ref().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}"); // a String takes all
        text
    })
}
