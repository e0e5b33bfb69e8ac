//! Counters of the switch.

use hawser_bpf::switch as bpf;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::causes::{Cause, causes};

/// Counters of the switch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct SwitchCounters {
    /// Per entry, since it was installed.
    pub(super) entries: Vec<EntryCounters>,
    /// Dropped packets, by cause.
    pub(super) drops: SwitchDrops,
}

/// Counters of one entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct EntryCounters {
    /// Its name.
    pub(super) name: String,
    /// IP packets as on the wire, after segmentation.
    pub(super) packets: u64,
    /// Their bytes, from the outer IP header on.
    pub(super) bytes: u64,
}

/// Dropped packets, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct SwitchDrops {
    /// Not addressed to this gateway, or with a path label that no entry and no socket has.
    no_entry: u64,
    /// Fragments of packets that an entry matches.
    fragment: u64,
    /// Larger than the MTU of the output port; the sender is told by ICMP.
    too_big: u64,
    /// Malformed header or wrong checksum.
    malformed: u64,
    /// TTL exceeded.
    ttl: u64,
    /// Refused by the kernel, for instance because the port is gone.
    failed: u64,
}

impl From<bpf::Drops> for SwitchDrops {
    fn from(drops: bpf::Drops) -> Self {
        let bpf::Drops { no_entry, fragment, too_big, malformed, ttl, failed } = drops;
        Self { no_entry, fragment, too_big, malformed, ttl, failed }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EntryLabels {
    entry: String,
}

/// Registers the metrics.
pub(crate) fn register(registry: &mut Registry, counters: &SwitchCounters) {
    let [packets, bytes] = std::array::from_fn(|_| Family::<EntryLabels, Counter>::default());
    for entry in &counters.entries {
        let labels = EntryLabels { entry: entry.name.clone() };
        packets.get_or_create(&labels).inc_by(entry.packets);
        bytes.get_or_create(&labels).inc_by(entry.bytes);
    }
    let drops = Family::<Cause, Counter>::default();
    for (cause, count) in causes(&counters.drops) {
        drops.get_or_create(&Cause { cause }).inc_by(count);
    }
    registry.register("switch_packets", "Packets that an entry of the switch led on", packets);
    registry.register("switch_bytes", "Their bytes, from the outer IP header", bytes);
    registry.register("switch_dropped_packets", "Packets the switch dropped", drops);
}
