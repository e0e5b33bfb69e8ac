//! Decision trees, forests and boosted trees that say how malicious a flow is.
//!
//! A model is data: a file with its schema, version, hash and how it was trained ([`file`]). Loading checks
//! all of it once; scoring cannot fail afterwards. A score is the probability that a flow is malicious, 0
//! to 1; [`Model::explain`] says which comparisons led to it.
//!
//! Comparisons are those of scikit-learn, which trains the models: a value is rounded to single precision
//! and goes left where it is at most the threshold.

#![forbid(unsafe_code)]

pub mod file;

mod model;

pub use file::{Refused, SIZE_MAX};
pub use model::{Model, Step};
