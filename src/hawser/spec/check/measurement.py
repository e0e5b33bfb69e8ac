"""Measurements: their ends exist, and the tool can do what is configured."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from hawser.spec.check.topology import near
from hawser.spec.errors import found
from hawser.spec.explain import Loc
from hawser.spec.measurement import (
    Bandwidth,
    Http,
    Iperf3,
    Load,
    Measurement,
    PathMtu,
    Ping,
    Protocol,
    Throughput,
    fitted,
    window,
)
from hawser.spec.multipath import measured_ends, tunnel_ends
from hawser.spec.port import Port, node_of
from hawser.spec.topology import Topology, node_ports
from hawser.spec.units import Duration, Ratio
from hawser.spec.validate import Issue
from hawser.spec.workflow import Scenario

MAX_MEASUREMENTS = 64

_CONGESTION = re.compile(r"[a-z0-9_-]{1,15}")
_MAX_UDP = 65_507
"""Payload of the largest UDP datagram over IPv4."""
_PORTS = 65_536
_TRAIN_RATES, _TRAIN_SHARE, _TRAIN_SECONDS = (1e5, 1e10), 0.2, (2.0, 3600.0)
"""What a bandwidth probe may be asked to do: bit/s, share of the port, seconds."""
_SHORTEST = 0.1
"""Interval of iperf3's reports, seconds: its smallest."""
_MAX_WRITE = 1 << 20
"""iperf3's largest block."""


def ends(measurements: Mapping[str, Measurement], topology: Topology) -> Iterator[Issue]:
    """Check that the ends of measurements exist."""
    ports = node_ports(topology)
    for loc, end in sound_ends(measurements).items():
        yield from _end(loc, end, ports)


def sound_ends(measurements: Mapping[str, Measurement]) -> dict[Loc, str]:
    """Give the ends of measurements, by the place where they are written."""
    return {
        ("measurements", name, field): end
        for name, each in measurements.items()
        for field, end in (("from", each.source), ("to", each.target))
    }


def nodes(ends: Mapping[Loc, str], topology: Topology) -> Iterator[Issue]:
    """Check only that the nodes of ends exist."""
    for loc, end in ends.items():
        if node_of(end) not in topology.nodes:
            yield Issue(loc, near(topology.nodes, node_of(end), "node"))


def settings(measurements: Mapping[str, Measurement]) -> Iterator[Issue]:
    """Check measurements by themselves."""
    if len(measurements) > MAX_MEASUREMENTS:
        message = f"found {len(measurements)}, expected at most {MAX_MEASUREMENTS}"
        yield Issue(("measurements",), message)
    before: set[str] = set()
    for name, measurement in measurements.items():
        loc: Loc = ("measurements", name)
        yield from _beside((*loc, "with"), measurement, before)
        yield from _during(loc, measurements, name)
        if measurement.beside is None and measurement.during is None:
            before.add(name)
        if node_of(measurement.source) == node_of(measurement.target):
            yield Issue((*loc, "to"), "found the same node as from, expected another")
        yield from _of_probe(loc, measurement)


def _of_probe(loc: Loc, measurement: Measurement) -> Iterator[Issue]:
    """Check what only one kind of measurement has."""
    match measurement:
        case Ping():
            yield from _positive((*loc, "interval"), measurement.interval)
        case PathMtu():
            pass
        case Bandwidth():
            yield from _bandwidth(loc, measurement)
        case Iperf3():
            yield from _iperf3(loc, measurement)
        case Http():
            yield from _http(loc, measurement)
        case Load() | Throughput():
            yield from _traffic(loc, measurement)


def _bandwidth(loc: Loc, measurement: Bandwidth) -> Iterator[Issue]:
    low, high = _TRAIN_RATES
    if not low <= measurement.port <= high:
        message = f"found {measurement.port / 1e6:g} Mbit/s, expected 0.1 Mbit/s to 10 Gbit/s"
        yield Issue((*loc, "port"), message)
    if not 0 < measurement.share <= _TRAIN_SHARE:
        message = f"found {measurement.share:.0%}, expected more than 0 and at most 20 %"
        yield Issue((*loc, "share"), message)
    if not _TRAIN_SECONDS[0] <= measurement.duration <= _TRAIN_SECONDS[1]:
        message = f"found {measurement.duration:g} s, expected 2 s to 1 h"
        yield Issue((*loc, "duration"), message)


def _beside(loc: Loc, measurement: Measurement, before: set[str]) -> Iterator[Issue]:
    if measurement.beside is not None and measurement.beside not in before:
        what = "measurement before this one that waits for the one before it"
        yield Issue(loc, near(sorted(before), measurement.beside, what))


def _during(loc: Loc, measurements: Mapping[str, Measurement], name: str) -> Iterator[Issue]:
    """Check that a measurement fits into the measured time of another one."""
    measurement = measurements[name]
    if measurement.during is None:
        if measurement.start and measurement.beside is None:
            yield Issue((*loc, "start"), "found a start, which needs `with` or `during`")
        return
    if measurement.beside is not None:
        yield Issue((*loc, "during"), "found `with` as well, expected one of both")
        return
    names = list(measurements)
    earlier = {
        each: measurements[each]
        for each in names[: names.index(name)]
        if isinstance(measurements[each], Iperf3 | Http | Load) and not measurements[each].during
    }
    if measurement.during not in earlier:
        what = "measurement before this one by iperf3, http or load"
        yield Issue((*loc, "during"), near(sorted(earlier), measurement.during, what))
        return
    seconds = window(measurements, name)
    needed = fitted(measurements, name).seconds
    if seconds is not None and needed > seconds:
        message = f"found {needed:g} s, expected at most the {seconds:g} s that are measured there"
        yield Issue((*loc, "during"), message)


def _end(loc: Loc, end: str, ports: dict[str, list[Port]]) -> Iterator[Issue]:
    node, _, port = end.partition(".")
    if node not in ports:
        yield Issue(loc, near(ports, node, "node"))
    elif not ports[node]:
        yield Issue(loc, f"found {node}, which has no links and no internet access")
    elif port and end not in ports[node]:
        known = [each.name for each in ports[node]]
        yield Issue(loc, near(known, port, f"port of {node}"))


def roles(scenario: Scenario) -> Iterator[Issue]:
    """Check that no node both opens and accepts MPTCP connections at the same ports.

    The kernel's path manager would announce a second address on each port, and the connection get
    more subflows than there are paths.
    """
    connects, listens = map(set, tunnel_ends(scenario))
    measured = list(measured_ends(scenario))
    connects |= {source for _, source, _ in measured}
    listens |= {target for _, _, target in measured}
    for name, source, target in measured:
        for field, node, other in (("from", source, listens), ("to", target, connects)):
            if node in other:
                message = f"found {node}, which both opens and accepts MPTCP connections; "
                message += "expected the same direction everywhere (see reverse)"
                yield Issue(("measurements", name, field), message)


def _positive(loc: Loc, value: Duration) -> Iterator[Issue]:
    if not value > 0:
        yield Issue(loc, f"found {str(value)!r}, expected more than zero")


def _iperf3(loc: Loc, measurement: Iperf3) -> Iterator[Issue]:
    yield from _whole((*loc, "duration"), measurement.duration, 1)
    yield from _whole((*loc, "warmup"), measurement.warmup, 0)
    if not _SHORTEST <= measurement.interval <= 1:
        expected = f"{_SHORTEST:g} s to 1 s"
        yield Issue((*loc, "interval"), f"found {str(measurement.interval)!r}, expected {expected}")
    if measurement.protocol is Protocol.UDP:
        yield from _udp(loc, measurement)
    if measurement.congestion and not _CONGESTION.fullmatch(measurement.congestion):
        expected = "the kernel's name of a congestion control, such as cubic"
        yield Issue(
            (*loc, "congestion"), f"found {found(measurement.congestion)}, expected {expected}"
        )
    limit = _MAX_UDP if measurement.protocol is Protocol.UDP else _MAX_WRITE
    if measurement.length is not None and measurement.length > limit:
        yield Issue(
            (*loc, "length"), f"found {str(measurement.length)!r}, expected at most {limit} B"
        )


def _udp(loc: Loc, measurement: Iperf3) -> Iterator[Issue]:
    if measurement.rate is None:
        yield Issue((*loc, "rate"), "missing: UDP requires an offered rate")
    if measurement.congestion is not None:
        yield Issue((*loc, "congestion"), "found a congestion control, but UDP has none")
    if measurement.length is not None and measurement.length < 16:
        yield Issue(
            (*loc, "length"), f"found {str(measurement.length)!r}, expected at least 16 B for UDP"
        )


def _http(loc: Loc, measurement: Http) -> Iterator[Issue]:
    yield from _whole((*loc, "duration"), measurement.duration, 1)
    yield from _whole((*loc, "warmup"), measurement.warmup, 0)
    if measurement.threads > measurement.connections:
        message = f"found {measurement.threads} threads, expected at most one for each connection"
        yield Issue((*loc, "threads"), f"{message} ({measurement.connections})")
    if "." in measurement.source:
        message = f"found the port {measurement.source}, expected a node"
        yield Issue((*loc, "from"), f"{message}: wrk uses the address of the route")


def _traffic(loc: Loc, measurement: Load | Throughput) -> Iterator[Issue]:
    flows = measurement.flows
    for field, ports in (("source_port", flows.source_port), ("target_port", flows.target_port)):
        if ports.first + min(ports.count, flows.count) > _PORTS:
            message = f"found {ports.count}, expected ports up to {_PORTS - 1}"
            yield Issue((*loc, "flows", field, "count"), message)
    if flows.source and flows.target and flows.source.first.version != flows.target.first.version:
        message = f"found {flows.target.first}, expected an address of the version of the source"
        yield Issue((*loc, "flows", "target", "first"), message)
    if isinstance(measurement, Load):
        yield from _positive((*loc, "duration"), measurement.duration)
        return
    yield from _throughput(loc, measurement)


def _throughput(loc: Loc, measurement: Throughput) -> Iterator[Issue]:
    yield from _positive((*loc, "trial"), measurement.trial)
    yield from _goals(loc, measurement)
    yield from _share((*loc, "resolution"), measurement.resolution)
    yield from _share((*loc, "part_load"), measurement.part_load)
    if not measurement.loss < 1:
        message = f"found {str(measurement.loss)!r}, expected less than 100 %"
        yield Issue((*loc, "loss"), message)
    if measurement.max_load is not None and measurement.max_load <= measurement.min_load:
        message = f"found {str(measurement.max_load)!r}, expected more than min_load"
        yield Issue((*loc, "max_load"), message)


def _goals(loc: Loc, measurement: Throughput) -> Iterator[Issue]:
    """Check that trials can exceed the loss ratio, and that a second goal is another one."""
    exceed, partial = measurement.exceed, measurement.partial_drop
    if not exceed < 1:
        yield Issue((*loc, "exceed"), f"found {str(exceed)!r}, expected less than 100 %")
    elif exceed and measurement.trials * exceed < 1:
        message = f"found {str(exceed)!r}, which of {measurement.trials} trials is none"
        yield Issue((*loc, "exceed"), f"{message}; expected 0 % or more trials")
    if partial is not None and not measurement.loss < partial < 1:
        message = f"found {str(partial)!r}, expected more than loss and less than 100 %"
        yield Issue((*loc, "partial_drop"), message)
    longest = measurement.trials * float(measurement.trial)
    if measurement.search_limit < longest:
        message = f"found {str(measurement.search_limit)!r}, expected at least the {longest:g} s"
        yield Issue((*loc, "search_limit"), f"{message} of the trials at one load")


def _share(loc: Loc, value: Ratio | None) -> Iterator[Issue]:
    if value is not None and not 0 < value < 1:
        yield Issue(loc, f"found {str(value)!r}, expected more than 0 % and less than 100 %")


def _whole(loc: Loc, value: Duration, least: int) -> Iterator[Issue]:
    if not (least <= value <= 86_400 and float(value).is_integer()):
        message = f"found {str(value)!r}, expected whole seconds, {least} s to 24 h"
        yield Issue(loc, message)
