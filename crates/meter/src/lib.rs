//! Measurement of a flow of test frames: loss, duplication, reordering, delay histograms. No I/O, no clock.

pub mod flow;
pub mod histogram;
pub mod sequence;
