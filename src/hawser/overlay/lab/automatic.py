"""Paths of a lab without a controller, chosen once from the rates of its topology.

With a controller, gateways begin with direct paths, and it chooses by what they measure.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import permutations
from typing import Final

from hawser.optimise.wan import Limits, Pair, Wan
from hawser.overlay.sdwan.automatic import Choice, automatic_pairs, direct_places, placed
from hawser.spec.measurement import Iperf3
from hawser.spec.overlay import Overlay, Paths
from hawser.spec.port import Port, node_of
from hawser.spec.route import Stop, leased
from hawser.spec.topology import Bottleneck, Internet, Topology, backward, components
from hawser.spec.workflow import Scenario

_LEAST: Final = 1e5
"""Demand of branches between which nothing is measured, bit/s."""
_MOST: Final = 1e12
"""Demand of traffic without a limit, over ports without one, bit/s."""


def choice(scenario: Scenario) -> Choice:
    """Choose the paths of a checked scenario; nothing where they are not automatic."""
    overlay = scenario.overlay
    if overlay is None or overlay.paths is not Paths.AUTOMATIC or scenario.controller is not None:
        return {}
    from hawser.optimise.members import described, groups
    from hawser.optimise.program import Program

    wan, lines = declared(scenario.topology, overlay), leased(scenario.topology)
    pairs = list(automatic_pairs(overlay))
    best = described(groups(Program().solve(wan, demand(scenario, overlay, pairs)), wan))
    return {
        pair: placed(direct_places(overlay, lines, pair), best[pair])
        for pair in pairs
        if pair in best
    }


def declared(topology: Topology, overlay: Overlay) -> Wan:
    """Give ports and tunnels with the rates of a topology, bit/s.

    Tunnels through the same bottleneck get equal parts of what its UDP cross traffic leaves.
    """
    internet = topology.internet or Internet(ports={})
    lines = leased(topology)
    stops = {
        Stop(name, port.name): port
        for name, branch in overlay.branches.items()
        for port in branch.wan_ports
    }
    ports = {
        stop: Limits(_rate(internet.ports[port].rate), _rate(backward(internet.ports[port]).rate))
        for stop, port in stops.items()
    }
    rates = dict(_rates(internet))
    tunnels = {
        (one, other): min(
            ports[one].egress,
            ports[other].ingress,
            rates.get((stops[one], stops[other]), _rate(internet.path.rate)),
        )
        for one, other in permutations(stops, 2)
        if one.branch != other.branch and (stops[one] in lines) == (stops[other] in lines)
    }
    return Wan(ports, tunnels)


def _rates(internet: Internet) -> Iterator[tuple[tuple[Port, Port], float]]:
    """Give the rates between ports that are described by themselves, the lower ones last."""
    given: dict[tuple[Port, Port], float] = {}
    for path in internet.paths.values():
        given[path.ends] = _rate(path.rate)
        given[path.ends[::-1]] = _rate(backward(path).rate)
    for bottleneck in internet.bottlenecks.values():
        for ends, rate in _shares(bottleneck):
            given[ends] = min(rate, given.get(ends, _rate(internet.path.rate)))
    yield from given.items()


def _shares(bottleneck: Bottleneck) -> Iterator[tuple[tuple[Port, Port], float]]:
    reverse = bottleneck.reverse
    cross = bottleneck.cross_traffic, reverse.cross_traffic
    taken = [float(each.udp) if each and each.udp else 0.0 for each in cross]
    rates = float(bottleneck.rate), float(reverse.rate or bottleneck.rate)
    forward, back = (max(0.0, rate - udp) for rate, udp in zip(rates, taken, strict=True))
    for one, other in bottleneck.between:
        yield (one, other), forward / len(bottleneck.between)
        yield (other, one), back / len(bottleneck.between)


def demand(scenario: Scenario, overlay: Overlay, pairs: list[Pair]) -> Mapping[Pair, float]:
    """Give the demand of branches: that of the measurements between them, bit/s."""
    branches = branches_of(scenario.topology, overlay)
    found = {each: _LEAST for pair in pairs for each in (pair, pair[::-1])}
    for measurement in scenario.measurements.values():
        ends = [branches.get(node_of(end)) for end in (measurement.source, measurement.target)]
        if isinstance(measurement, Iperf3) and measurement.reverse:
            ends.reverse()
        one, other = ends
        if one is not None and other is not None and (one, other) in found:
            rate = measurement.rate if isinstance(measurement, Iperf3) else None
            found[one, other] = max(found[one, other], float(rate or _MOST))
    return found


def branches_of(topology: Topology, overlay: Overlay) -> Mapping[str, str]:
    """Give the branch of each node that links join with one gateway."""
    found: dict[str, str] = {}
    for nodes in components(topology):
        here = [name for name, branch in overlay.branches.items() if branch.gateway in nodes]
        if len(here) == 1:
            found |= dict.fromkeys(nodes, here[0])
    return found


def _rate(rate: float | None) -> float:
    return math.inf if rate is None else float(rate)
