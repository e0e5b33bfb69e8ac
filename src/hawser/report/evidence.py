"""The evidence samples of one measurement in one trial, as input of `stats.bottleneck`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from hawser.overlay.lab.traversed import Traversed, traversed
from hawser.spec.measurement import Http, Iperf3, Load, Measurement, Protocol, Throughput
from hawser.spec.workflow import Scenario
from hawser.stats.evidence import (
    Connection,
    CpuQuota,
    DropPoint,
    Evidence,
    Loss,
    Offered,
    Program,
    Queue,
    Role,
    share,
)
from hawser.store import Sample

Values = Mapping[str, float]
"""Values of one subject by metric."""


@dataclass(frozen=True)
class Ways:
    """What the packets of a measurement pass: those that carry data, and acknowledgements."""

    data: Traversed
    acks: Traversed

    @property
    def nodes(self) -> frozenset[str]:
        """Nodes of both."""
        return self.data.nodes | self.acks.nodes


def ways(scenario: Scenario, measurement: Measurement) -> Ways | None:
    """Give the elements that a measurement's packets may pass; None if no way is known."""
    ends = measurement.source, measurement.target
    if isinstance(measurement, Iperf3) and measurement.reverse:
        ends = ends[::-1]
    there, back = traversed(scenario, *ends), traversed(scenario, *ends[::-1])
    if there is None or back is None:
        return None
    if isinstance(measurement, Http):  # requests one way, responses the other
        return Ways(there | back, Traversed())
    return Ways(there, back if _reacts(measurement) else Traversed())


def gather(
    samples: Iterable[Sample],
    measurement: Measurement,
    passed: Ways | None = None,
    delivered: float | None = None,
) -> Evidence:
    """Sort the samples of kind `evidence` of one measurement by element.

    Args:
        samples: of one trial.
        measurement: what they belong to.
        passed: what its packets pass; all elements of the lab if left out.
        delivered: Mbit/s that arrived.
    """
    found: dict[str, dict[str, float]] = {}
    for sample in samples:
        found.setdefault(sample.subject, {})[sample.metric] = sample.value
    found = {name: values for name, values in found.items() if _on_way(name, passed)}
    source, target = traffic(measurement)
    return Evidence(
        queues=tuple(_queue(name, v, passed) for name, v in found.items() if "rate_limit" in v),
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
        connections=tuple(_connections(found, measurement)),
        losses=tuple(_losses(found, passed)),
        offered=_offered(measurement, source, delivered),
        reacts=_reacts(measurement),
    )


def _on_way(subject: str, passed: Ways | None) -> bool:
    """Tell whether the measurement's packets pass a subject, such as `link:x:forward`."""
    if passed is None:
        return True
    kind, name = (*subject.split(":"), "")[:2]
    if kind in ("node", "program", "daemon", "socket"):
        return name in passed.nodes
    return passed.data.passes(subject) or passed.acks.passes(subject)


def _only_acks(name: str, passed: Ways | None) -> bool:
    return passed is not None and not passed.data.passes(name)


def _reacts(measurement: Measurement) -> bool:
    """Tell whether the sender slows down if packets are lost."""
    if isinstance(measurement, Iperf3):
        return measurement.protocol is not Protocol.UDP
    return isinstance(measurement, Http)


def _offered(measurement: Measurement, source: str, delivered: float | None) -> Offered | None:
    if not isinstance(measurement, Iperf3 | Load) or measurement.rate is None:
        return None
    rate = measurement.rate / 1e6
    arrived = None if delivered is None else delivered / rate
    return Offered(generator=source, rate=rate, delivered=arrived)


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


def _queue(name: str, values: Values, passed: Ways | None) -> Queue:
    packets = values.get("packets", 0.0)
    return Queue(
        name=name,
        rate=values["rate_limit"],
        load=values.get("load", 0.0) / 100,
        peak=values.get("load_busiest", 0.0) / 100,
        packets=round(packets),
        drops=round(values.get("drop_queue", 0)),
        load_at_drop=values.get("load_at_drop", 0.0) / 100,
        drop_span=values.get("drop_span", 100.0) / 100,
        acks=_only_acks(name, passed),
        frame=share(values.get("bytes", 0.0), packets),
    )


def _losses(found: Mapping[str, Values], passed: Ways | None) -> Iterator[Loss]:
    for name, values in found.items():
        if "drop_loss" in values and not _only_acks(name, passed):
            sent = values.get("packets_offered", 0.0)
            yield Loss(name=name, packets=round(values["drop_loss"]), sent=round(sent))


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
    used = share(values.get("cpu", 0.0), values["cpu_limit"])
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


def _connections(found: Mapping[str, Values], measurement: Measurement) -> Iterator[Connection]:
    """Give the connections in the direction of the data, or of both if both ends send."""
    source, target = traffic(measurement)
    ways = ((source, target), (target, source)) if isinstance(measurement, Http) else None
    for sender, receiver in ways or ((source, target),):
        values = found.get(f"socket:{sender}", {})
        if "receive_window_limited" in values:
            read = found.get(f"socket:{receiver}", {})
            yield _connection((sender, receiver), source, values, read, measurement)


def _connection(
    ends: tuple[str, str], source: str, values: Values, read: Values, measurement: Measurement
) -> Connection:
    first = ends[0] == source
    # Requests leave a connection idle until the response: that is no lack of supply.
    busy = values.get("busy", 100.0) / 100 if isinstance(measurement, Iperf3) else 1.0
    return Connection(
        sender=ends[0],
        sender_role="generator" if first else "receiver",
        receiver=ends[1],
        receiver_role="receiver" if first else "generator",
        busy=busy,
        window=values["receive_window_limited"] / 100,
        buffer=values.get("send_buffer_limited", 0.0) / 100,
        unread=read.get("receive_buffer_unread", 0.0) / 100,
    )
