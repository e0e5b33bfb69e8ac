"""Upper bounds on what a described network can carry between two nodes.

The topology is a directed graph with rates as capacities. Rates count bits on the wire, so goodput
always stays somewhat below these bounds.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations

import numpy as np
import scipy

from hawser.spec.topology import Bottleneck, Channel, Internet, Topology

UNBOUNDED = float("inf")


@dataclass(frozen=True)
class Edge:
    """A one-way channel between two vertices; a vertex is a node, or one side of a WAN port."""

    source: str
    target: str
    rate: float


def capacity(
    topology: Topology, source: str, target: str, down: frozenset[str] = frozenset()
) -> float | None:
    """The most that can be carried from one node to another over all paths together.

    Args:
        topology: the network.
        source: sending node.
        target: receiving node.
        down: elements that are down, such as `path:p1`.

    Returns:
        bit/s on the wire; None if nothing limits it.
    """
    found = edges(topology, down)
    single = widest(found, source, target)
    if single in (0, UNBOUNDED):
        return 0.0 if single == 0 else None
    return maximum_flow(found, source, target)


def widest(edges: tuple[Edge, ...], source: str, target: str) -> float:
    """Rate of the widest path, the one whose slowest channel is fastest; 0 if there is no path.

    Dijkstra's algorithm with min instead of sum (Pollack, Operations Research 8, 1960).
    """
    best: dict[str, float] = {}
    queue = [(-UNBOUNDED, source)]
    while queue:
        width, vertex = heapq.heappop(queue)
        if vertex in best:
            continue
        best[vertex] = -width
        for edge in edges:
            if edge.source == vertex:
                heapq.heappush(queue, (-min(-width, edge.rate), edge.target))
    return best.get(target, 0.0)


@lru_cache(maxsize=1024)  # variants and runs of a report share few networks
def maximum_flow(edges: tuple[Edge, ...], source: str, target: str) -> float:
    """Rate of all paths together: the maximum flow, as a linear program over the flow of each edge.

    Call it only if `widest` gave a finite positive rate: the program is unbounded otherwise.
    """
    vertices = {v: i for i, v in enumerate(dict.fromkeys(v for e in edges for v in _ends(e)))}
    balance = np.zeros((len(vertices), len(edges)))
    for column, edge in enumerate(edges):
        balance[vertices[edge.source], column] += 1
        balance[vertices[edge.target], column] -= 1
    inner = [i for v, i in vertices.items() if v not in (source, target)]
    # No edge needs more than can leave the source or reach the target. With that bound the solver's
    # tolerance is relative to the result, not to the fastest edge.
    most = min(
        sum(edge.rate for edge in edges if edge.source == source),
        sum(edge.rate for edge in edges if edge.target == target),
    )
    limits = [min(edge.rate, most) for edge in edges]
    scale = max((limit for limit in limits if limit < UNBOUNDED), default=1.0)
    solved = scipy.optimize.linprog(
        -balance[vertices[source]],
        A_eq=balance[inner] if inner else None,
        b_eq=np.zeros(len(inner)) if inner else None,
        bounds=[(0, None if limit == UNBOUNDED else limit / scale) for limit in limits],
    )
    return float(-solved.fun * scale) if solved.success else UNBOUNDED


def _ends(edge: Edge) -> tuple[str, str]:
    return edge.source, edge.target


def edges(topology: Topology, down: frozenset[str] = frozenset()) -> tuple[Edge, ...]:
    """Give all channels of a network, with rate 0 for elements in `down`."""
    return tuple(_edges(topology, down))


def _edges(topology: Topology, down: frozenset[str]) -> Iterator[Edge]:
    for name, link in topology.links.items():
        a, b = (end.split(".")[0] for end in link.ends)
        cut = f"link:{name}" in down
        yield Edge(a, b, _rate(link, cut=cut))
        yield Edge(b, a, _rate(link, link.reverse, cut=cut))
    if topology.internet is not None:
        yield from _access_edges(topology.internet, down)
        yield from _path_edges(topology.internet, down)


def _access_edges(internet: Internet, down: frozenset[str]) -> Iterator[Edge]:
    for name, port in internet.ports.items():
        node = name.split(".")[0]
        cut = f"port:{name}" in down
        yield Edge(node, f"{name} up", _rate(port, cut=cut))
        yield Edge(f"{name} down", node, _rate(port, port.reverse, cut=cut))


def _path_edges(internet: Internet, down: frozenset[str]) -> Iterator[Edge]:
    named: dict[tuple[str, str], float] = {}
    for name, path in internet.paths.items():
        cut = f"path:{name}" in down
        named[path.ends] = _rate(path, cut=cut)
        named[path.ends[::-1]] = _rate(path, path.reverse, cut=cut)
    passes: dict[tuple[str, str], str] = {}
    for name, bottleneck in internet.bottlenecks.items():
        for way, rate in _ways(bottleneck):
            rest = 0.0 if f"bottleneck:{name}" in down else rate
            yield Edge(f"{name} {way} in", f"{name} {way} out", rest)
        for a, b in bottleneck.between:
            passes |= {(a, b): f"{name} forward", (b, a): f"{name} reverse"}
    for a, b in permutations(internet.ports, 2):
        rate = named.get((a, b), _rate(internet.path))
        if (a, b) in passes:
            yield Edge(f"{a} up", f"{passes[a, b]} in", rate)
            yield Edge(f"{passes[a, b]} out", f"{b} down", rate)
        else:
            yield Edge(f"{a} up", f"{b} down", rate)


def _ways(bottleneck: Bottleneck) -> Iterator[tuple[str, float]]:
    """Give the rate that cross traffic leaves in each direction.

    TCP connections yield to other traffic; UDP at a constant rate does not.
    """
    reverse = bottleneck.reverse
    for way, rate, cross_traffic in (
        ("forward", bottleneck.rate, bottleneck.cross_traffic),
        ("reverse", reverse.rate or bottleneck.rate, reverse.cross_traffic),
    ):
        taken = (
            cross_traffic.udp if cross_traffic is not None and cross_traffic.udp is not None else 0
        )
        yield way, float(rate - taken)


def _rate(channel: Channel, reverse: Channel | None = None, *, cut: bool = False) -> float:
    """Rate of a direction; `reverse` takes precedence over the element."""
    if cut:
        return 0.0
    rate = reverse.rate if reverse is not None and reverse.rate is not None else channel.rate
    return UNBOUNDED if rate is None else float(rate)
