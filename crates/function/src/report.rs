//! Counters and traces of a node, as JSON and for Prometheus.

use std::{collections::BTreeMap, net::IpAddr};

use hawser_bpf::nsh::{Count, Event, Observed, Step};
use hawser_daemon::control;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    error::Error,
    node::{Counted, Node},
};

/// Counters since the daemon started. Bytes are those of Ethernet frames on arrival.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(title = "hawserd function counters")]
pub(crate) struct Counters {
    /// Packets looked up at each position of each path.
    pub(crate) hops: Vec<PathCounters>,
    /// Packets that entered each path here.
    pub(crate) classified: Vec<PathCounters>,
    /// Packets that the function has processed; zero at an SFF.
    pub(crate) served: Tally,
    /// Packets dropped, by cause.
    pub(crate) drops: BTreeMap<&'static str, u64>,
}

/// Packets at a sensor. All were forwarded like any others.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Packets {
    /// Packets that were reported to the sensor's workers.
    pub(crate) observed: u64,
    /// Packets that no worker knows of, since its ring was full.
    pub(crate) lost: u64,
    /// Packets that are not IP, or malformed.
    pub(crate) other: u64,
}

impl From<Observed> for Packets {
    fn from(observed: Observed) -> Self {
        let Observed { packets, lost, other } = observed;
        Self { observed: packets, lost, other }
    }
}

/// The way to the observations of a forwarder, for a sensor in another process.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "hawserd function sensor")]
pub(crate) struct Sensing {
    /// Numbers of the rings in the kernel; none without a sensor.
    pub(crate) rings: Vec<u32>,
    /// What became of packets.
    pub(crate) packets: Packets,
}

/// Packets at a position of a path.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct PathCounters {
    pub(crate) spi: u32,
    pub(crate) si: u8,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

/// Packets and bytes.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub(crate) struct Tally {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

impl From<Count> for Tally {
    fn from(count: Count) -> Self {
        Self { packets: count.packets, bytes: count.bytes }
    }
}

/// All counters.
pub(crate) fn counters(node: &Node) -> Result<Counters, Error> {
    let (mut hops, mut classified) = (Vec::new(), Vec::new());
    for (what, Count { packets, bytes }) in node.counts()? {
        let (list, path) = match what {
            Counted::Hop(path) => (&mut hops, path),
            Counted::Class(path) => (&mut classified, path),
        };
        list.push(PathCounters { spi: path.spi, si: path.si, packets, bytes });
    }
    let drops = node.drops()?.iter().collect();
    Ok(Counters { hops, classified, served: node.served()?.into(), drops })
}

/// Events since the last request.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(title = "hawserd function trace")]
pub(crate) struct Trace {
    /// In order of time.
    pub(crate) events: Vec<TraceEvent>,
}

/// What happened to one packet at this node.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct TraceEvent {
    /// Time on `CLOCK_MONOTONIC`, which all nodes of a machine share, nanoseconds.
    pub(crate) time_ns: u64,
    /// `classified`, `forwarded`, `served` (processed by the function), `ended` (left its path) or `dropped`.
    pub(crate) step: &'static str,
    /// Cause of a drop.
    pub(crate) cause: Option<&'static str>,
    /// Service path identifier, 0 if it was on no path.
    pub(crate) spi: u32,
    /// Service index on arrival.
    pub(crate) si: u8,
    /// Ingress port.
    pub(crate) from: String,
    /// Egress port.
    pub(crate) to: Option<String>,
    /// Length of the frame, bytes.
    pub(crate) length: u32,
    pub(crate) source: Option<IpAddr>,
    pub(crate) destination: Option<IpAddr>,
    pub(crate) protocol: u8,
    pub(crate) source_port: u16,
    pub(crate) destination_port: u16,
}

/// Events since the last call.
pub(crate) fn trace(node: &mut Node) -> Trace {
    let events = node.events();
    Trace { events: events.iter().map(|event| describe(node, event)).collect() }
}

fn describe(node: &Node, event: &Event) -> TraceEvent {
    let (step, cause) = match event.step {
        Step::Classified => ("classified", None),
        Step::Forwarded => ("forwarded", None),
        Step::Served => ("served", None),
        Step::Ended => ("ended", None),
        Step::Dropped(cause) => ("dropped", Some(cause)),
    };
    let (from, to) = node.port_names(event);
    let (source_port, destination_port) = event.flow.ports();
    TraceEvent {
        time_ns: event.time_ns,
        step,
        cause,
        spi: event.path.spi,
        si: event.path.si,
        from,
        to,
        length: event.length,
        source: event.flow.source(),
        destination: event.flow.destination(),
        protocol: event.flow.protocol(),
        source_port,
        destination_port,
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PathLabels {
    spi: u32,
    si: u32,
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct CauseLabels {
    cause: &'static str,
}

/// Drops by cause as a metric.
pub(crate) fn drops(counted: &BTreeMap<&'static str, u64>) -> Family<CauseLabels, Counter> {
    let drops = Family::<CauseLabels, Counter>::default();
    for (cause, count) in counted {
        drops.get_or_create(&CauseLabels { cause }).inc_by(*count);
    }
    drops
}

/// The counters in Prometheus' text format.
pub(crate) fn prometheus(counters: &Counters) -> String {
    let (packets, bytes) =
        (Family::<PathLabels, Counter>::default(), Family::<PathLabels, Counter>::default());
    let served = Counter::<u64>::default();
    served.inc_by(counters.served.packets);
    for (kind, list) in [("hop", &counters.hops), ("classified", &counters.classified)] {
        for path in list {
            let labels = PathLabels { spi: path.spi, si: path.si.into(), kind };
            packets.get_or_create(&labels).inc_by(path.packets);
            bytes.get_or_create(&labels).inc_by(path.bytes);
        }
    }
    let mut registry = Registry::with_prefix("hawser_function");
    registry.register("packets", "Packets by path, index and kind", packets);
    registry.register("bytes", "Bytes of Ethernet frames by path, index and kind", bytes);
    registry.register("served", "Packets that the function has processed", served);
    registry.register("drops", "Packets dropped by cause", drops(&counters.drops));
    control::prometheus_text(&registry)
}
