//! Counters, histograms and units.
