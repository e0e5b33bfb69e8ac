//! Counters by cause, as metrics with a `cause` label.

use prometheus_client::encoding::EncodeLabelSet;
use serde::Serialize;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Cause {
    pub(super) cause: String,
}

/// Fields of a struct of counters by their JSON name.
pub(super) fn causes(counters: &impl Serialize) -> Vec<(String, u64)> {
    let value = serde_json::to_value(counters).unwrap_or_default();
    let fields = value.as_object().into_iter().flatten();
    fields.filter_map(|(name, count)| Some((name.clone(), count.as_u64()?))).collect()
}
