"""What a described network lets pass between two nodes at most.

The topology is a directed graph with rates as capacities. Rates count bits on the wire, so a
payload always stays somewhat below these bounds.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from hawser.report.model import Bounds
from hawser.spec.measurement import Iperf3
from hawser.spec.topology import Bottleneck, Channel, Internet, Topology
from hawser.spec.workflow import Scenario

_UNIT = {"bit/s": 1.0, "kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9}
_UNBOUNDED = float("inf")


@dataclass(frozen=True)
class Edge:
    """A one-way channel between two vertices; a vertex is a node, or one side of a WAN port."""

    source: str
    target: str
    rate: float


def bounds(scenario: Scenario, measurement: str, reverse: bool, unit: str) -> Bounds | None:
    """Bounds of a throughput measurement.

    Returns:
        None where the measurement has no two ends, the unit is no rate, or nothing limits.
    """
    described = scenario.measurements.get(measurement)
    if not isinstance(described, Iperf3) or unit not in _UNIT:
        return None
    ends = described.source.split(".")[0], described.target.split(".")[0]
    source, target = reversed(ends) if reverse else ends
    edges = tuple(_edges(scenario.topology))
    single = widest(edges, source, target)
    if single in (0, _UNBOUNDED):
        return None
    together = maximum_flow(edges, source, target)
    return Bounds(together=together / _UNIT[unit], single=single / _UNIT[unit])


def widest(edges: tuple[Edge, ...], source: str, target: str) -> float:
    """Rate of the path whose narrowest channel is the widest; 0 where there is no path.

    Dijkstra's algorithm with min instead of sum (Pollack, Operations Research 8, 1960).
    """
    best: dict[str, float] = {}
    queue = [(-_UNBOUNDED, source)]
    while queue:
        width, vertex = heapq.heappop(queue)
        if vertex in best:
            continue
        best[vertex] = -width
        for edge in edges:
            if edge.source == vertex:
                heapq.heappush(queue, (-min(-width, edge.rate), edge.target))
    return best.get(target, 0.0)


def maximum_flow(edges: tuple[Edge, ...], source: str, target: str) -> float:
    """Rate of all paths together: the maximum flow, as a linear program over the flow of each edge.

    `widest` must have found a finite positive path before: only then the program is bounded.
    """
    vertices = {v: i for i, v in enumerate(dict.fromkeys(v for e in edges for v in _ends(e)))}
    balance = np.zeros((len(vertices), len(edges)))
    for column, edge in enumerate(edges):
        balance[vertices[edge.source], column] += 1
        balance[vertices[edge.target], column] -= 1
    inner = [i for v, i in vertices.items() if v not in (source, target)]
    # No edge needs more than leaves the source or reaches the target: so the solver's tolerance is
    # one of the result, however fast some edge is.
    most = min(
        sum(edge.rate for edge in edges if edge.source == source),
        sum(edge.rate for edge in edges if edge.target == target),
    )
    limits = [min(edge.rate, most) for edge in edges]
    scale = max((limit for limit in limits if limit < _UNBOUNDED), default=1.0)
    solved = linprog(
        -balance[vertices[source]],
        A_eq=balance[inner] if inner else None,
        b_eq=np.zeros(len(inner)) if inner else None,
        bounds=[(0, None if limit == _UNBOUNDED else limit / scale) for limit in limits],
    )
    return float(-solved.fun * scale) if solved.success else _UNBOUNDED


def _ends(edge: Edge) -> tuple[str, str]:
    return edge.source, edge.target


def _edges(topology: Topology) -> Iterator[Edge]:
    for link in topology.links.values():
        a, b = (end.split(".")[0] for end in link.ends)
        yield Edge(a, b, _rate(link))
        yield Edge(b, a, _rate(link, link.reverse))
    if topology.internet is not None:
        yield from _internet_edges(topology.internet)


def _internet_edges(internet: Internet) -> Iterator[Edge]:
    for name, port in internet.ports.items():
        node = name.split(".")[0]
        yield Edge(node, f"{name} up", _rate(port))
        yield Edge(f"{name} down", node, _rate(port, port.reverse))
    named = {path.ends: _rate(path) for path in internet.paths.values()}
    named |= {p.ends[::-1]: _rate(p, p.reverse) for p in internet.paths.values()}
    passes: dict[tuple[str, str], str] = {}
    for name, bottleneck in internet.bottlenecks.items():
        for way, channel in _ways(bottleneck):
            yield Edge(f"{name} {way} in", f"{name} {way} out", channel)
        for a, b in bottleneck.between:
            passes |= {(a, b): f"{name} forward", (b, a): f"{name} reverse"}
    for a in internet.ports:
        for b in internet.ports:
            if a == b:
                continue
            rate = named.get((a, b), _rate(internet.path))
            if (a, b) in passes:
                yield Edge(f"{a} up", f"{passes[a, b]} in", rate)
                yield Edge(f"{passes[a, b]} out", f"{b} down", rate)
            else:
                yield Edge(f"{a} up", f"{b} down", rate)


def _ways(bottleneck: Bottleneck) -> Iterator[tuple[str, float]]:
    """Give what each direction has left; connections of others yield, a constant flow does not."""
    reverse = bottleneck.reverse
    for way, rate, background in (
        ("forward", bottleneck.rate, bottleneck.background),
        ("reverse", reverse.rate or bottleneck.rate, reverse.background),
    ):
        taken = background.udp if background is not None and background.udp is not None else 0
        yield way, float(rate - taken)


def _rate(channel: Channel, reverse: Channel | None = None) -> float:
    """Rate of a direction: what `reverse` says goes before what the element says."""
    rate = reverse.rate if reverse is not None and reverse.rate is not None else channel.rate
    return _UNBOUNDED if rate is None else float(rate)
