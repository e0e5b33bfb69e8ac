//! Responses of the control API.

use std::{sync::atomic::AtomicU64, time::Duration};

use hawser_daemon::control;
use hawser_netdev::tun::Offload;
use hawser_tunnel::counters::{GroupCounters, TunCounters, UnauthenticatedCounters};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    causes::{Cause, causes},
    config::Config,
    switch::{self, SwitchCounters},
    wan_filter::{self, WanDrops},
};

/// `GET /v1/status`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(title = "hawserd gateway status")]
#[allow(clippy::struct_excessive_bools)] // facts that do not depend on each other
pub(super) struct Status {
    /// Version of hawserd.
    pub(super) version: &'static str,
    /// Always `gateway`.
    pub(super) role: &'static str,
    /// Name of this branch.
    pub(super) branch: String,
    /// Seconds since the start.
    pub(super) uptime_s: f64,
    /// Whether packets are carried: the device is up. Peers have a state of their own.
    pub(super) ready: bool,
    /// Whether packets are carried without TLS: anyone on the way can read and forge them.
    pub(super) insecure: bool,
    /// Whether peers reach the local prefixes and open services only; false without `local`.
    pub(super) restricted: bool,
    /// Whether the WAN interfaces take only what the gateway asked for; false without `wan`.
    pub(super) filtered: bool,
    /// Offload of the TUN device: `none`, `tcp` or `tcp+udp`.
    pub(super) offload: &'static str,
    /// The other branches.
    pub(super) peers: Vec<PeerStatus>,
}

impl Status {
    pub(super) fn new(
        config: &Config,
        uptime: Duration,
        offload: Offload,
        peers: Vec<PeerStatus>,
    ) -> Self {
        let offload = match offload {
            Offload::None => "none",
            Offload::Tcp => "tcp",
            Offload::TcpUdp => "tcp+udp",
        };
        let (version, uptime_s) = (env!("CARGO_PKG_VERSION"), uptime.as_secs_f64());
        Self {
            version,
            role: "gateway",
            branch: config.document.branch.clone(),
            uptime_s,
            ready: true,
            insecure: config.document.transport.insecure,
            restricted: config.permissions.local.is_some(),
            filtered: config.wan.is_some(),
            offload,
            peers,
        }
    }
}

/// One peer.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct PeerStatus {
    /// Its name.
    pub(super) branch: String,
    /// Whether a path group to it is up.
    pub(super) up: bool,
    /// Its path groups.
    pub(super) groups: Vec<GroupStatus>,
}

/// One path group.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[allow(clippy::struct_excessive_bools)] // independent facts about a group
pub(super) struct GroupStatus {
    /// Its number.
    pub(super) id: u8,
    /// Whether it carries packets.
    pub(super) up: bool,
    /// Subflows of its connection; 0 without one.
    pub(super) subflows: u32,
    /// Connections that replaced one that had been up.
    pub(super) reconnects: u64,
    /// Remote address of the connection's first subflow.
    pub(super) remote: Option<String>,
    /// Whether the connection is encrypted.
    pub(super) encrypted: bool,
    /// Bytes queued for the connection.
    pub(super) queued_bytes: usize,
    /// Flows of this branch that it carries, where there are several groups to choose from.
    pub(super) flows: u32,
    /// Whether the peer takes part in the TCP proxy (`quic`).
    pub(super) tcp_proxy: bool,
    /// Current connections of the TCP proxy.
    pub(super) tcp_proxy_flows: u32,
    /// Largest packet, bytes, that goes whole over every path in use (`quic`); null until it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mtu: Option<u16>,
    /// Member paths that cannot be used at present, such as one whose interface has no address.
    pub(super) waiting: Vec<WaitingPath>,
    /// Wire version in use with the peer (`quic`); null without a connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) wire_version: Option<u8>,
    /// Whether the peer takes trains that measure paths (`quic`).
    pub(super) trains: bool,
    /// Member paths of the `quic` transport; empty for others.
    pub(super) paths: Vec<PathStatus>,
}

/// A member path that cannot be used at present.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct WaitingPath {
    /// Its index in the group, from 0.
    pub(super) member: u8,
    /// What is missing.
    pub(super) reason: String,
}

/// One member path, in the direction to the peer.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct PathStatus {
    /// Its index in the group, from 0.
    pub(super) member: u8,
    /// Address of this gateway.
    pub(super) local: String,
    /// Address of the peer; with its port where the rendezvous has told it.
    pub(super) remote: String,
    /// Address and port from which this gateway's packets reach the peer (reflexive transport
    /// address); null until it has told them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reflexive: Option<String>,
    /// Branch through which the path leads, because no direct connection could be opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) via: Option<String>,
    /// `probing`, `up`, `degraded`, `down` or `standby`.
    pub(super) state: &'static str,
    /// Measured rate, bit/s.
    pub(super) rate_bps: f64,
    /// Smoothed RTT, milliseconds; null before the first sample.
    pub(super) rtt_ms: Option<f64>,
    /// Minimum RTT of the last seconds, milliseconds.
    pub(super) rtt_min_ms: Option<f64>,
    /// RTT variation, milliseconds.
    pub(super) jitter_ms: f64,
    /// Loss rate by bytes in the last second, 0 to 1.
    pub(super) loss: f64,
    /// Bytes in flight.
    pub(super) in_flight_bytes: u64,
    /// Bytes of them in the path's queue.
    pub(super) queued_bytes: u64,
    /// Congestion window, bytes.
    pub(super) window_bytes: u64,
    /// UDP payload that the path takes, bytes.
    pub(super) mtu: u16,
    /// Tunnel bytes sent on the path since its connection began.
    pub(super) sent_bytes: u64,
    /// Of these, declared lost.
    pub(super) lost_bytes: u64,
    /// Share of the group's bytes, 0 to 1.
    pub(super) share: f64,
}

/// `GET /v1/counters`. All counters start at zero when the daemon starts.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(title = "hawserd gateway counters")]
pub(super) struct Counters {
    /// The TUN device.
    pub(super) tun: TunCounters,
    /// Connections that ended before their hello was accepted.
    pub(super) unauthenticated: UnauthenticatedCounters,
    /// The other branches.
    pub(super) peers: Vec<PeerCounters>,
    /// The switch; null if this gateway runs none.
    pub(super) switch: Option<SwitchCounters>,
    /// What the WAN interfaces did not take; null without `wan`.
    pub(super) wan: Option<WanDrops>,
}

/// One peer.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct PeerCounters {
    /// Its name.
    pub(super) branch: String,
    /// Its path groups.
    pub(super) groups: Vec<NumberedCounters>,
}

/// One path group.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct NumberedCounters {
    /// Its number.
    pub(super) id: u8,
    /// Its counters.
    #[serde(flatten)]
    pub(super) counters: GroupCounters,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct GroupLabels {
    peer: String,
    group: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PathLabels {
    peer: String,
    group: u8,
    member: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CauseLabels {
    peer: String,
    group: u8,
    cause: String,
}

/// `GET /metrics`: status and counters in the text format of Prometheus.
pub(super) fn metrics(status: &Status, counters: &Counters) -> String {
    let mut registry = Registry::with_prefix("hawser_gateway");
    register_groups(&mut registry, status);
    register_paths(&mut registry, status);
    register_tun(&mut registry, counters);
    register_peers(&mut registry, counters);
    register_tcp_proxy(&mut registry, counters);
    if let Some(counters) = &counters.switch {
        switch::register(&mut registry, counters);
    }
    if let Some(drops) = &counters.wan {
        wan_filter::register(&mut registry, drops);
    }
    control::prometheus_text(&registry)
}

fn register_groups(registry: &mut Registry, status: &Status) {
    let [up, subflows, queued, tcp_proxy] =
        std::array::from_fn(|_| Family::<GroupLabels, Gauge>::default());
    let reconnects = Family::<GroupLabels, Counter>::default();
    for (peer, group) in status.peers.iter().flat_map(|p| p.groups.iter().map(move |g| (p, g))) {
        let labels = GroupLabels { peer: peer.branch.clone(), group: group.id };
        up.get_or_create(&labels).set(group.up.into());
        subflows.get_or_create(&labels).set(group.subflows.into());
        queued.get_or_create(&labels).set(i64::try_from(group.queued_bytes).unwrap_or(i64::MAX));
        tcp_proxy.get_or_create(&labels).set(group.tcp_proxy_flows.into());
        reconnects.get_or_create(&labels).inc_by(group.reconnects);
    }
    registry.register("group_tcp_proxy_flows", "Current connections of the TCP proxy", tcp_proxy);
    registry.register("group_up", "Whether the path group carries packets", up);
    registry.register("group_subflows", "Subflows of the group's connection", subflows);
    registry.register("group_queued_bytes", "Bytes that wait for the connection", queued);
    registry.register("group_reconnects", "Connections that took another's place", reconnects);
}

/// A gauge of a member path: name, help text, value.
type Figure = (&'static str, &'static str, fn(&PathStatus) -> f64);

fn register_paths(registry: &mut Registry, status: &Status) {
    let figures: [Figure; 8] = [
        ("path_up", "Whether the member path carries packets", |p| f64::from(p.state == "up")),
        ("path_rate_bps", "Measured rate of the path, bit/s", |p| p.rate_bps),
        ("path_rtt_ms", "Smoothed RTT", |p| p.rtt_ms.unwrap_or(f64::NAN)),
        ("path_rtt_min_ms", "Minimum RTT of the last seconds", |p| {
            p.rtt_min_ms.unwrap_or(f64::NAN)
        }),
        ("path_jitter_ms", "RTT variation", |p| p.jitter_ms),
        ("path_loss", "Loss rate by bytes in the last second", |p| p.loss),
        ("path_queued_bytes", "Bytes in the path's queue", |p| p.queued_bytes as f64),
        ("path_share", "Share of the group's bytes", |p| p.share),
    ];
    let sent = Family::<PathLabels, Counter>::default();
    let families = figures.map(|_| Family::<PathLabels, Gauge<f64, AtomicU64>>::default());
    for (peer, group) in status.peers.iter().flat_map(|p| p.groups.iter().map(move |g| (p, g))) {
        for path in &group.paths {
            let peer = peer.branch.clone();
            let labels = PathLabels { peer, group: group.id, member: path.member };
            sent.get_or_create(&labels).inc_by(path.sent_bytes);
            for (family, (_, _, figure)) in families.iter().zip(&figures) {
                family.get_or_create(&labels).set(figure(path));
            }
        }
    }
    for (family, (name, help, _)) in families.into_iter().zip(figures) {
        registry.register(name, help, family);
    }
    registry.register("path_sent_bytes", "Tunnel bytes given to the path", sent);
}

fn register_tun(registry: &mut Registry, counters: &Counters) {
    let tun = &counters.tun;
    for (name, help, value) in [
        ("tun_read_packets", "Packets read from the TUN device", tun.read.packets),
        ("tun_read_bytes", "Bytes read from the TUN device", tun.read.bytes),
        ("tun_written_packets", "Packets written to the TUN device", tun.written.packets),
        ("tun_written_bytes", "Bytes written to the TUN device", tun.written.bytes),
    ] {
        let counter = Counter::<u64>::default();
        counter.inc_by(value);
        registry.register(name, help, counter);
    }
    let drops = Family::<Cause, Counter>::default();
    for (cause, count) in causes(&tun.drops) {
        drops.get_or_create(&Cause { cause }).inc_by(count);
    }
    registry.register("tun_dropped_records", "Records dropped at the TUN device", drops);
    let unauthenticated = Family::<Cause, Counter>::default();
    for (cause, count) in causes(&counters.unauthenticated) {
        unauthenticated.get_or_create(&Cause { cause }).inc_by(count);
    }
    registry.register(
        "unauthenticated_connections",
        "Unauthenticated connections that ended, by cause",
        unauthenticated,
    );
}

fn register_peers(registry: &mut Registry, counters: &Counters) {
    let [sent_packets, sent_bytes, received_packets, received_bytes] =
        std::array::from_fn(|_| Family::<GroupLabels, Counter>::default());
    let [drops, ends, order] = std::array::from_fn(|_| Family::<CauseLabels, Counter>::default());
    for (peer, group) in counters.peers.iter().flat_map(|p| p.groups.iter().map(move |g| (p, g))) {
        let labels = GroupLabels { peer: peer.branch.clone(), group: group.id };
        let GroupCounters { sent, received, .. } = group.counters;
        sent_packets.get_or_create(&labels).inc_by(sent.packets);
        sent_bytes.get_or_create(&labels).inc_by(sent.bytes);
        received_packets.get_or_create(&labels).inc_by(received.packets);
        received_bytes.get_or_create(&labels).inc_by(received.bytes);
        let label = |cause| CauseLabels { peer: peer.branch.clone(), group: group.id, cause };
        for (cause, count) in causes(&group.counters.drops) {
            drops.get_or_create(&label(cause)).inc_by(count);
        }
        for (cause, count) in causes(&group.counters.ends) {
            ends.get_or_create(&label(cause)).inc_by(count);
        }
        for (cause, count) in causes(&group.counters.order) {
            order.get_or_create(&label(cause)).inc_by(count);
        }
    }
    registry.register("sent_packets", "Packets sent to the peer", sent_packets);
    registry.register("sent_bytes", "Inner bytes sent to the peer", sent_bytes);
    registry.register("received_packets", "Packets received from the peer", received_packets);
    registry.register("received_bytes", "Inner bytes received from the peer", received_bytes);
    registry.register("dropped_records", "Records dropped to or from the peer", drops);
    registry.register("connection_ends", "Connections that ended", ends);
    registry.register("received_order", "Packets by the order in which they came", order);
}

fn register_tcp_proxy(registry: &mut Registry, counters: &Counters) {
    let [sent, received, retransmitted] =
        std::array::from_fn(|_| Family::<GroupLabels, Counter>::default());
    let connections = Family::<CauseLabels, Counter>::default();
    for (peer, group) in counters.peers.iter().flat_map(|p| p.groups.iter().map(move |g| (p, g))) {
        let labels = GroupLabels { peer: peer.branch.clone(), group: group.id };
        let tcp_proxy = &group.counters.tcp_proxy;
        sent.get_or_create(&labels).inc_by(tcp_proxy.sent_bytes);
        received.get_or_create(&labels).inc_by(tcp_proxy.received_bytes);
        retransmitted.get_or_create(&labels).inc_by(tcp_proxy.retransmitted);
        let causes = [
            ("opened", tcp_proxy.opened),
            ("refused", tcp_proxy.refused),
            ("ended", tcp_proxy.ended),
            ("reset", tcp_proxy.reset),
        ];
        for (cause, count) in causes {
            let (peer, group) = (peer.branch.clone(), group.id);
            let labels = CauseLabels { peer, group, cause: cause.to_owned() };
            connections.get_or_create(&labels).inc_by(count);
        }
    }
    let help = "Connections of the TCP proxy, by outcome";
    registry.register("tcp_proxy_connections", help, connections);
    registry.register("tcp_proxy_sent_bytes", "Bytes of TCP connections sent to the peer", sent);
    registry.register("tcp_proxy_received_bytes", "Bytes from the peer that they took", received);
    registry.register(
        "tcp_proxy_retransmitted_messages",
        "Messages moved from a failed path to another",
        retransmitted,
    );
}
