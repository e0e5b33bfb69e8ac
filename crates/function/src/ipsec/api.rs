//! The control API of an IPsec function, and its counters as JSON and for Prometheus.

use std::{
    collections::BTreeMap,
    net::SocketAddrV4,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use axum::{Json, Router, extract::State, routing::get};
use hawser_daemon::control;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    super::{
        api::Status,
        report::{Tally, drops},
    },
    counters::Counters,
    document::Document,
    endpoint::Endpoint,
    keys::Event,
};

/// What carries the packets.
const ENGINE: &str = "hawserd";

/// The installed SAs.
#[derive(Default)]
pub(super) struct Associations(Mutex<BTreeMap<u32, Association>>);

impl Associations {
    /// Applies a change of an SA.
    pub(super) fn note(&self, event: &Event) {
        let mut held = self.held();
        let mut add = |spi: u32, direction, bits| {
            held.insert(spi, Association { spi: format!("{spi:#010x}"), direction, bits });
        };
        match event {
            Event::Inbound(spi, keys, _) => add(*spi, Direction::In, keys.bits()),
            Event::Outbound(spi, keys, _) => add(*spi, Direction::Out, keys.bits()),
            Event::InboundGone(spi) | Event::OutboundGone(spi) => drop(held.remove(spi)),
            Event::Flushed => held.clear(),
            Event::Unusable(_) | Event::Heard(_) => {}
        }
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<u32, Association>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is an SA for both directions.
    fn complete(&self) -> bool {
        let held = self.held();
        let has = |direction| held.values().any(|each| each.direction == direction);
        has(Direction::In) && has(Direction::Out)
    }
}

/// What the API's handlers share.
pub(super) struct Api {
    document: Document,
    counters: Arc<Counters>,
    associations: Arc<Associations>,
    endpoint: Arc<Endpoint>,
    started: Instant,
}

impl Api {
    /// The API of this end.
    pub(super) fn new(
        document: Document,
        counters: Arc<Counters>,
        associations: Arc<Associations>,
        endpoint: Arc<Endpoint>,
    ) -> Self {
        Self { document, counters, associations, endpoint, started: Instant::now() }
    }
}

type Shared = State<Arc<Api>>;

/// The routes.
pub(super) fn router(api: Arc<Api>) -> Router {
    Router::new()
        .route("/v1/status", get(status))
        .route("/v1/counters", get(counters))
        .route("/v1/config", get(config))
        .route("/metrics", get(metrics))
        .with_state(api)
}

async fn status(State(api): Shared) -> Json<Status> {
    Json(Status::of("ipsec", api.started).when(api.associations.complete()))
}

async fn config(State(api): Shared) -> Json<Document> {
    Json(api.document.clone())
}

async fn counters(State(api): Shared) -> Json<Report> {
    Json(Report::of(&api))
}

async fn metrics(State(api): Shared) -> String {
    Report::of(&api).prometheus()
}

/// Counters since the daemon started. Packets and bytes are those of inner packets.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(title = "hawserd function ipsec counters")]
pub(crate) struct Report {
    /// What carries the packets.
    engine: &'static str,
    /// Packets sent into the tunnel.
    sealed: Tally,
    /// Packets received from the tunnel.
    opened: Tally,
    /// IKE messages received on the same port and passed to charon.
    ike: Tally,
    /// Where the remote end is. Its port changes where NAT changes it.
    endpoint: SocketAddrV4,
    /// Changes of that port.
    moves: u64,
    /// Installed SAs.
    associations: Vec<Association>,
    /// Packets dropped, by cause.
    drops: BTreeMap<&'static str, u64>,
}

/// A security association (SA), which is one direction of the tunnel.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Association {
    /// Security parameters index.
    spi: String,
    direction: Direction,
    /// Key length of AES-GCM, bits.
    bits: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Direction {
    In,
    Out,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    kind: &'static str,
}

impl Report {
    fn of(api: &Api) -> Self {
        let Counters { sealed, opened, ike, .. } = &*api.counters;
        Self {
            engine: ENGINE,
            sealed: sealed.tally(),
            opened: opened.tally(),
            ike: ike.tally(),
            endpoint: api.endpoint.now(),
            moves: api.endpoint.moves(),
            associations: api.associations.held().values().cloned().collect(),
            drops: api.counters.drops(),
        }
    }

    /// The counters in Prometheus' text format.
    fn prometheus(&self) -> String {
        let (packets, bytes) =
            (Family::<Labels, Counter>::default(), Family::<Labels, Counter>::default());
        for (kind, tally) in [("sealed", self.sealed), ("opened", self.opened), ("ike", self.ike)] {
            packets.get_or_create(&Labels { kind }).inc_by(tally.packets);
            bytes.get_or_create(&Labels { kind }).inc_by(tally.bytes);
        }
        let mut registry = Registry::with_prefix("hawser_ipsec");
        registry.register("packets", "Packets by what became of them", packets);
        registry.register("bytes", "Bytes inside the tunnel by what became of them", bytes);
        registry.register("drops", "Packets dropped by cause", drops(&self.drops));
        control::prometheus_text(&registry)
    }
}
