//! The control API of SRv6 service proxies, and their counters as JSON and for Prometheus.

use std::{collections::BTreeMap, net::Ipv6Addr, time::Instant};

use axum::{Json, Router, extract::State, routing::get};
use hawser_daemon::control;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::{document::Document, node::Node};
use crate::{
    api::{Refusal, Status},
    error::Error,
    report::{Tally, drops},
};

/// What the API's handlers share.
pub(crate) struct Api {
    node: Node,
    started: Instant,
}

impl Api {
    /// The API of these proxies.
    pub(crate) fn new(node: Node) -> Self {
        Self { node, started: Instant::now() }
    }
}

type Shared = State<std::sync::Arc<Api>>;

/// The routes.
pub(crate) fn router(api: std::sync::Arc<Api>) -> Router {
    Router::new()
        .route("/v1/status", get(status))
        .route("/v1/counters", get(counters))
        .route("/v1/config", get(config))
        .route("/metrics", get(metrics))
        .with_state(api)
}

async fn status(State(api): Shared) -> Json<Status> {
    Json(Status::of("srv6-proxy", api.started))
}

async fn config(State(api): Shared) -> Json<Document> {
    Json(api.node.plan.document.clone())
}

async fn counters(State(api): Shared) -> Result<Json<Counters>, Refusal> {
    Ok(Json(Counters::of(&api.node)?))
}

async fn metrics(State(api): Shared) -> Result<String, Refusal> {
    Ok(prometheus(&Counters::of(&api.node)?))
}

/// Counters since the daemon started. Bytes are those of Ethernet frames on arrival.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(title = "hawserd function srv6-proxy counters")]
pub(crate) struct Counters {
    /// In the order of the configuration.
    proxies: Vec<ProxyCounters>,
    /// Packets dropped, by cause.
    drops: BTreeMap<&'static str, u64>,
}

/// Packets of one proxy.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct ProxyCounters {
    segment: Ipv6Addr,
    /// Packets to the function.
    toward: Tally,
    /// Packets returned by the function.
    returned: Tally,
    /// Dynamic proxy: packets whose headers differed from the cached ones and were stored.
    learned: u64,
}

impl Counters {
    fn of(node: &Node) -> Result<Self, Error> {
        let all = node.plan.document.proxies.iter().zip(node.counts()?);
        let proxies = all.map(|(proxy, counts)| ProxyCounters {
            segment: proxy.segment,
            toward: counts.toward.into(),
            returned: counts.returned.into(),
            learned: counts.learned,
        });
        let proxies = proxies.collect();
        Ok(Self { proxies, drops: node.proxies.drops()?.iter().collect() })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ProxyLabels {
    segment: String,
    kind: &'static str,
}

/// The counters in Prometheus' text format.
fn prometheus(counters: &Counters) -> String {
    let (packets, bytes) =
        (Family::<ProxyLabels, Counter>::default(), Family::<ProxyLabels, Counter>::default());
    let learned = Family::<ProxyLabels, Counter>::default();
    for proxy in &counters.proxies {
        let labels = |kind| ProxyLabels { segment: proxy.segment.to_string(), kind };
        for (kind, tally) in [("toward", proxy.toward), ("returned", proxy.returned)] {
            packets.get_or_create(&labels(kind)).inc_by(tally.packets);
            bytes.get_or_create(&labels(kind)).inc_by(tally.bytes);
        }
        learned.get_or_create(&labels("toward")).inc_by(proxy.learned);
    }
    let mut registry = Registry::with_prefix("hawser_srv6_proxy");
    registry.register("packets", "Packets by segment and direction", packets);
    registry.register("bytes", "Bytes of Ethernet frames by segment and direction", bytes);
    registry.register("learned", "Packets whose headers were new, and kept", learned);
    registry.register("drops", "Packets dropped by cause", drops(&counters.drops));
    control::prometheus_text(&registry)
}
