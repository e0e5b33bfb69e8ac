"""The evidence samples of one measurement in one trial, as input of `stats.bottleneck`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hawser.spec.measurement import Iperf3, Load, Measurement, Throughput
from hawser.stats import evidence
from hawser.stats.evidence import (
    Connection,
    CpuQuota,
    DropPoint,
    Evidence,
    Loss,
    Program,
    Queue,
    Role,
)
from hawser.store import Sample

Values = Mapping[str, float]
"""Values of one subject by metric."""


def gather(samples: Iterable[Sample], measurement: Measurement) -> Evidence:
    """Sort the samples of kind `evidence` of one measurement by element."""
    found: dict[str, dict[str, float]] = {}
    for sample in samples:
        found.setdefault(sample.subject, {})[sample.metric] = sample.value
    source, target = traffic(measurement)
    return Evidence(
        queues=tuple(_queue(name, v) for name, v in found.items() if "rate_limit" in v),
        programs=tuple(
            _program(name, role(name, source, target), v)
            for name, v in found.items()
            if "thread_demand" in v and not _paced(measurement, name)
        ),
        cpu_quotas=tuple(
            _quota(name, role(name, source, target), v)
            for name, v in found.items()
            if v.get("cpu_limit")
        ),
        stacks=_drop_points(found, "drop_filter", source, target),
        sockets=_drop_points(found, "drop_buffer", source, target),
        connections=tuple(
            _connection(sender, receiver, source, v)
            for sender, receiver in ((source, target), (target, source))
            if "receive_window_limited" in (v := found.get(f"socket:{sender}", {}))
        ),
        losses=tuple(
            Loss(name=name, packets=round(v["drop_loss"]))
            for name, v in found.items()
            if "drop_loss" in v
        ),
    )


def traffic(measurement: Measurement) -> tuple[str, str]:
    """Give the node that sends most of the traffic, and the one that receives it."""
    ends = [end.partition(".")[0] for end in (measurement.source, measurement.target)]
    reverse = isinstance(measurement, Iperf3) and measurement.reverse
    source, target = reversed(ends) if reverse else ends
    return source, target


def role(subject: str, source: str, target: str) -> Role:
    """Give the role of a subject such as `node:fw1`, `program:h1:wrk` or `daemon:gw1`."""
    kind, node = (*subject.split(":"), "")[:2]
    if kind == "daemon":
        return "function"
    if node == source:
        return "generator"
    return "receiver" if node == target else "function"


def _node(subject: str) -> str:
    return subject.partition(":")[2].partition(":")[0]


def _paced(measurement: Measurement, subject: str) -> bool:
    """Tell whether a program is the load generator, which busy-waits until a frame is due."""
    return isinstance(measurement, Load | Throughput) and subject.endswith(":hawserd")


def _queue(name: str, values: Values) -> Queue:
    return Queue(
        name=name,
        rate=values["rate_limit"],
        load=values.get("load", 0.0) / 100,
        peak=values.get("load_busiest", 0.0) / 100,
        packets=round(values.get("packets", 0)),
        drops=round(values.get("drop_queue", 0)),
        load_at_drop=values.get("load_at_drop", 0.0) / 100,
    )


def _program(subject: str, its: Role, values: Values) -> Program:
    kind, node, name = (*subject.split(":", 2), "")[:3]
    return Program(
        element=subject if kind == "daemon" else node,
        name=name or "hawserd",
        role=its,
        demand=values["thread_demand"] / 100,
        cpu=values.get("thread_cpu", 0.0) / 100,
    )


def _quota(name: str, its: Role, values: Values) -> CpuQuota:
    used = evidence.share(values.get("cpu", 0.0), values["cpu_limit"])
    return CpuQuota(
        node=_node(name), role=its, used=used, throttled=values.get("throttled", 0.0) / 100
    )


def _drop_points(
    found: Mapping[str, Values], cause: str, source: str, target: str
) -> tuple[DropPoint, ...]:
    return tuple(
        DropPoint(
            node=_node(name),
            role=role(name, source, target),
            packets=round(values.get("packets", 0)),
            drops=round(values[cause]),
        )
        for name, values in found.items()
        if cause in values
    )


def _connection(sender: str, receiver: str, source: str, values: Values) -> Connection:
    first = sender == source
    return Connection(
        sender=sender,
        sender_role="generator" if first else "receiver",
        receiver=receiver,
        receiver_role="receiver" if first else "generator",
        window=values["receive_window_limited"] / 100,
        buffer=values.get("send_buffer_limited", 0.0) / 100,
    )
