//! Counters, histograms and units.

pub mod flow;
pub mod histogram;
pub mod sequence;
