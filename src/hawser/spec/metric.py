"""The metrics of a run with their units. Names are stable, because scripts depend on them."""

from __future__ import annotations

import re

PING = {"rtt": "ms", "rtt_min": "ms", "rtt_p99": "ms", "rtt_p999": "ms", "ping_loss": "%"}
PATH_MTU = {"path_mtu": "bytes"}
BANDWIDTH = {
    "available_bandwidth": "Mbit/s",
    "available_bandwidth_low": "Mbit/s",
    "available_bandwidth_high": "Mbit/s",
    "path_capacity": "Mbit/s",
    "estimate_error": "%",
    "probe_traffic": "%",
    "probe_time": "s",
    "trains": "trains",
    "trains_disturbed": "trains",
}
IPERF3_TCP = {"goodput": "Mbit/s", "retransmissions": "segments"}
IPERF3_MPTCP = {"goodput": "Mbit/s"}
IPERF3_UDP = {"goodput": "Mbit/s", "loss": "%", "jitter": "ms"}
FAIRNESS = {"fairness": "ratio"}
"""In addition, of iperf3 with several streams, or several measurements of it side by side."""
OPTIMUM = {"optimum_share": "ratio"}
"""In addition, of iperf3 in labs with a controller."""
CONVERGENCE = {"failover_time": "ms", "reversion_time": "ms", "goodput_min": "Mbit/s"}
"""In addition, of iperf3 if events take something down; the times once for each event."""
HTTP = {
    "requests": "1/s",
    "http_latency_p50": "ms",
    "http_latency_p90": "ms",
    "http_latency_p99": "ms",
    "http_latency_p999": "ms",
    "http_errors": "requests",
}
HTTP_OPEN_LOOP = {"http_unsent": "requests"}
"""In addition, with a rate of requests."""
HTTP_CONNECTIONS = {"connections": "1/s"}
"""In addition, if each request has its own connection."""
_DELAY = {"delay": "ms", "delay_p99": "ms", "delay_p999": "ms", "variation_p99": "ms"}
_SHARES = dict.fromkeys(("loss", "duplicated", "reordered", "unsent"), "%")
_LOAD = {**_SHARES, **_DELAY, "trials_repeated": "trials"}
PART_LOAD = {f"part_load_{metric}": unit for metric, unit in {"loss": "%", **_DELAY}.items()}
"""The same at a share of the throughput."""
LOAD = {"received": "Mbit/s", **_LOAD}
THROUGHPUT = {"throughput": "Mbit/s", "throughput_frames": "frames/s", **_LOAD}
CONDITIONAL_THROUGHPUT = {
    "conditional_throughput": "Mbit/s",
    "conditional_throughput_frames": "frames/s",
    **_LOAD,
}
"""Throughput of trials shorter than those of RFC 2544 is never called by that name."""
_PDR = {f"pdr_{metric}": unit for metric, unit in {"loss": "%", **_DELAY}.items()}
PDR = {"pdr": "Mbit/s", "pdr_frames": "frames/s", **_PDR}
"""In addition, with a second goal loss ratio."""
CONDITIONAL_PDR = {"conditional_pdr": "Mbit/s", "conditional_pdr_frames": "frames/s", **_PDR}
RFC2544_TRIAL = 60.0
"""Seconds (RFC 2544 section 24)."""
LOSS_CURVE = {"frame_loss": "%"}
BACK_TO_BACK = {"burst": "frames", "buffer": "ms"}
PASSIVE = {
    "tx_bytes": "bytes",
    "tx_packets": "packets",
    "rx_bytes": "bytes",
    "rx_packets": "packets",
    "tx_errors": "packets",
    "rx_errors": "packets",
    "tx_records": "records",
    "rx_records": "records",
    "classified_packets": "packets",
    "led_packets": "packets",
    "served_packets": "packets",
    "cpu": "%",
    "memory": "MiB",
    "onboarding_time": "s",
}
"""Counters of elements and daemons, read in every trial."""

MEASURED = {
    **PING,
    **PATH_MTU,
    **BANDWIDTH,
    **HTTP,
    **HTTP_CONNECTIONS,
    **HTTP_OPEN_LOOP,
    **IPERF3_TCP,
    **IPERF3_UDP,
    **FAIRNESS,
    **OPTIMUM,
    **CONVERGENCE,
    **LOAD,
    **THROUGHPUT,
    **CONDITIONAL_THROUGHPUT,
    **PDR,
    **CONDITIONAL_PDR,
    **PART_LOAD,
    **LOSS_CURVE,
    **BACK_TO_BACK,
}
"""What measurements give."""

ATTACKS = {
    "attack_episodes": "episodes",
    "benign_sessions": "sessions",
    "benign_failed": "sessions",
    "accuracy": "%",
    "benign_blocked": "flows",
    "benign_passed": "flows",
    "benign_flows_blocked": "%",
    "malicious_blocked": "flows",
    "malicious_passed": "flows",
    "malicious_flows_blocked": "%",
    "malicious_volume_blocked": "%",
    "late_volume_blocked": "%",
    "flood_volume_blocked": "%",
    "time_to_block": "ms",
    "time_to_block_p99": "ms",
}
"""In addition, with attacks."""

SENSORS = {
    "flows_seen": "flows",
    "records_made": "records",
    "records_lost": "records",
    "packets_unseen": "packets",
}
"""In addition, with intrusion detection sensors: sums over all of them."""
REPLAYED = {
    "frames_replayed": "frames",
    "frames_unsent": "frames",
    "frames_skipped": "frames",
    "replay_lateness": "ms",
}
"""In addition, with a replay."""
COLLECTED = {
    "records_shipped": "records",
    "records_stored": "records",
    "records_missing": "records",
}
"""In addition, with a collector."""

METRICS = {**MEASURED, **PASSIVE, **ATTACKS, **SENSORS, **REPLAYED, **COLLECTED}
"""Every metric and its unit; beside these, `drop_CAUSE` counts packets, or a daemon's records."""

_LOSSES = ("loss", "ping_loss", "frame_loss", "part_load_loss", "pdr_loss")
_COUNTS = (*PASSIVE, *ATTACKS, *SENSORS, *REPLAYED, *COLLECTED)
_NOT_DELAYED = (*_LOSSES, "duplicated", "reordered", "trials_repeated", *_COUNTS)


def depends_on_delay(metric: str) -> bool:
    """Tell whether a metric changes if packets are late, though all arrive and in order."""
    return metric not in _NOT_DELAYED and not _DROP.fullmatch(metric)


_DROP = re.compile(r"([rt]x_)?drop_[a-z_]{1,30}")


def units(metric: str) -> tuple[str, ...]:
    """Give the units that a metric can have; none where there is no such metric."""
    if _DROP.fullmatch(metric):
        return ("packets", "records")
    return (METRICS[metric],) if metric in METRICS else ()


def names(metric: str) -> tuple[str, ...]:
    """Give the metrics that references and assertions mean by a name.

    The throughput of RFC 2544 is the conditional throughput of trials of 60 s or more (RFC 9971).
    """
    whole = metric.removeprefix("conditional_")
    return (metric,) if whole == metric else (metric, whole)
