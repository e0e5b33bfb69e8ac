//! The emulator's counters, as JSON and for Prometheus.

use hawser_daemon::control;
use hawser_impair::Tally;
use hdrhistogram::Histogram;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    emulator::{Emulator, Path},
    port::Port,
};

/// Counters since the daemon started. Configured drops are `drop_loss` and `drop_queue` of `paths`; all
/// other drops are failures of the emulator.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(title = "hawserd wan counters")]
pub(crate) struct Counters {
    /// Interfaces, in the order of the wires' ends.
    pub(crate) interfaces: Vec<InterfaceCounters>,
    /// Paths. `wire:NAME:DIRECTION` counts the packets of a wire's direction that no path matches.
    pub(crate) paths: Vec<PathCounters>,
    /// Memory in use by packets, bytes.
    pub(crate) buffered_bytes: u64,
}

/// Frames of one interface.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct InterfaceCounters {
    /// Its name.
    pub(crate) name: String,
    pub(crate) rx_packets: u64,
    pub(crate) rx_bytes: u64,
    pub(crate) tx_packets: u64,
    pub(crate) tx_bytes: u64,
    /// Dropped because the receive ring was full: the emulator was too slow.
    pub(crate) drop_ring: u64,
    /// Dropped because larger than the MTU: the sender uses segmentation offload.
    pub(crate) drop_oversize: u64,
    /// Dropped because the kernel refused to send them.
    pub(crate) drop_send: u64,
}

/// Packets of one path.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct PathCounters {
    /// Its name.
    pub(crate) name: String,
    pub(crate) rx_packets: u64,
    pub(crate) rx_bytes: u64,
    pub(crate) tx_packets: u64,
    pub(crate) tx_bytes: u64,
    /// Dropped by the loss model.
    pub(crate) drop_loss: u64,
    /// Dropped because the bottleneck's queue was full.
    pub(crate) drop_queue: u64,
    /// Dropped because the packet memory (`buffer_bytes`) was full.
    pub(crate) drop_buffer: u64,
    /// Duplicates created.
    pub(crate) duplicated: u64,
    /// Delayed by `reordering`, so that later packets overtake them.
    pub(crate) reordered: u64,
    /// Delayed to preserve order: their jitter would have let them overtake.
    pub(crate) held: u64,
    /// Configured constant delay, microseconds.
    pub(crate) delay_us: f64,
    /// Time between a packet's due time and its transmission.
    pub(crate) lateness_us: Quantiles,
}

/// The queue before the bottleneck of one path.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct QueueCounters {
    /// The path's name.
    pub(crate) name: String,
    /// Packets that have left the bottleneck, those included that were lost behind it.
    pub(crate) tx_packets: u64,
    pub(crate) tx_bytes: u64,
    /// Dropped because the queue was full.
    pub(crate) drop_queue: u64,
    /// Bytes that wait now; the packet in transmission is not among them.
    pub(crate) backlog_bytes: u64,
}

/// Response to `GET /v1/queues`: little, so that it can be asked for often without a packet sent late for it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(title = "hawserd wan queues")]
pub(crate) struct Queues {
    /// Of the paths that have a bottleneck.
    pub(crate) queues: Vec<QueueCounters>,
}

/// Quantiles of a distribution in microseconds, with an error of at most 1 %.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub(crate) struct Quantiles {
    pub(crate) count: u64,
    pub(crate) mean: f64,
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
}

/// The current counters.
pub(crate) fn snapshot(emulator: &mut Emulator) -> Counters {
    Counters {
        interfaces: emulator.ports().iter_mut().map(interface).collect(),
        paths: emulator.paths().iter().filter(|path| !path.retired).map(path).collect(),
        buffered_bytes: emulator.buffered(),
    }
}

/// The queues as they are now.
pub(crate) fn queues(emulator: &Emulator) -> Queues {
    let used = emulator.paths().iter().filter(|path| !path.retired);
    Queues { queues: used.filter_map(queue).collect() }
}

fn queue(path: &Path) -> Option<QueueCounters> {
    let (backlog_bytes, counted) = (path.channel.queued_bytes()?, path.channel.counters());
    Some(QueueCounters {
        name: path.name.clone(),
        tx_packets: counted.served.packets,
        tx_bytes: counted.served.bytes,
        drop_queue: counted.queue_full.packets,
        backlog_bytes,
    })
}

fn interface(port: &mut Port) -> InterfaceCounters {
    let counted = port.count();
    InterfaceCounters {
        name: port.name.clone(),
        rx_packets: counted.rx.packets,
        rx_bytes: counted.rx.bytes,
        tx_packets: counted.tx.packets,
        tx_bytes: counted.tx.bytes,
        drop_ring: counted.ring,
        drop_oversize: counted.oversize.packets,
        drop_send: counted.send.packets,
    }
}

fn path(path: &Path) -> PathCounters {
    let counted = path.channel.counters();
    let Tally { packets, bytes } = counted.entered;
    PathCounters {
        name: path.name.clone(),
        rx_packets: packets + path.buffer.packets,
        rx_bytes: bytes + path.buffer.bytes,
        tx_packets: counted.departed.packets,
        tx_bytes: counted.departed.bytes,
        drop_loss: counted.lost.packets,
        drop_queue: counted.queue_full.packets,
        drop_buffer: path.buffer.packets,
        duplicated: counted.duplicated.packets,
        reordered: counted.reordered.packets,
        held: counted.held.packets,
        delay_us: path.channel.profile().delay.as_secs_f64() * 1e6,
        lateness_us: quantiles(&path.lateness),
    }
}

fn quantiles(nanos: &Histogram<u64>) -> Quantiles {
    let at = |quantile| nanos.value_at_quantile(quantile) as f64 / 1e3;
    Quantiles {
        count: nanos.len(),
        mean: nanos.mean() / 1e3,
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        p999: at(0.999),
        max: nanos.max() as f64 / 1e3,
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    element: String,
    kind: String,
}

/// The counters in Prometheus' text format.
pub(crate) fn prometheus(counters: &Counters) -> String {
    let (packets, bytes, drops) = (
        Family::<Labels, Counter>::default(),
        Family::<Labels, Counter>::default(),
        Family::<Labels, Counter>::default(),
    );
    let lateness = Family::<Labels, Gauge<f64, std::sync::atomic::AtomicU64>>::default();
    let add = |family: &Family<Labels, Counter>, element: &str, kinds: &[(&str, u64)]| {
        for (kind, value) in kinds {
            family.get_or_create(&label(element, kind)).inc_by(*value);
        }
    };
    for port in &counters.interfaces {
        add(&packets, &port.name, &[("rx", port.rx_packets), ("tx", port.tx_packets)]);
        add(&bytes, &port.name, &[("rx", port.rx_bytes), ("tx", port.tx_bytes)]);
        let own =
            [("ring", port.drop_ring), ("oversize", port.drop_oversize), ("send", port.drop_send)];
        add(&drops, &port.name, &own);
    }
    for path in &counters.paths {
        let kinds = [
            ("rx", path.rx_packets),
            ("tx", path.tx_packets),
            ("duplicated", path.duplicated),
            ("reordered", path.reordered),
            ("held", path.held),
        ];
        add(&packets, &path.name, &kinds);
        add(&bytes, &path.name, &[("rx", path.rx_bytes), ("tx", path.tx_bytes)]);
        let causes =
            [("loss", path.drop_loss), ("queue", path.drop_queue), ("buffer", path.drop_buffer)];
        add(&drops, &path.name, &causes);
        let late = path.lateness_us;
        for (quantile, value) in [("p50", late.p50), ("p99", late.p99), ("max", late.max)] {
            lateness.get_or_create(&label(&path.name, quantile)).set(value / 1e6);
        }
    }
    let mut registry = Registry::with_prefix("hawser_wan");
    registry.register("packets", "Packets by element and kind", packets);
    registry.register("bytes", "Bytes of Ethernet frames by element and kind", bytes);
    registry.register("drops", "Packets dropped by element and cause", drops);
    registry.register("lateness_seconds", "Time between due time and transmission", lateness);
    control::prometheus_text(&registry)
}

fn label(element: &str, kind: &str) -> Labels {
    Labels { element: element.into(), kind: kind.into() }
}
