//! The features of a flow: names, order and units of flowtbag (D. Arndt, 2011).
//!
//! With the five values of the [`Tuple`](crate::Tuple) they are its 45. `f` is forward, the direction of
//! the flow's first packet, `b` backward. Lengths are bytes of IP packets, times microseconds. Where
//! flowtbag cuts means and deviations to integers, these are exact.

/// How many features a flow has besides its tuple.
pub const COUNT: usize = 40;

/// Values of the features, in the order of [`NAMES`].
pub type Features = [f64; COUNT];

/// Names of the features. `fpktl` and `bpktl` are packet lengths, `fiat` and `biat` times between
/// packets, `active` and `idle` times between pauses of over a second and the pauses, `sflow` averages of
/// the active times.
pub const NAMES: [&str; COUNT] = [
    "total_fpackets",
    "total_fvolume",
    "total_bpackets",
    "total_bvolume",
    "min_fpktl",
    "mean_fpktl",
    "max_fpktl",
    "std_fpktl",
    "min_bpktl",
    "mean_bpktl",
    "max_bpktl",
    "std_bpktl",
    "min_fiat",
    "mean_fiat",
    "max_fiat",
    "std_fiat",
    "min_biat",
    "mean_biat",
    "max_biat",
    "std_biat",
    "duration",
    "min_active",
    "mean_active",
    "max_active",
    "std_active",
    "min_idle",
    "mean_idle",
    "max_idle",
    "std_idle",
    "sflow_fpackets",
    "sflow_fbytes",
    "sflow_bpackets",
    "sflow_bbytes",
    "fpsh_cnt",
    "bpsh_cnt",
    "furg_cnt",
    "burg_cnt",
    "total_fhlen",
    "total_bhlen",
    "dscp",
];
