"""Bottlenecks: their paths exist and pass only one, and cross traffic leaves them a rate."""

from __future__ import annotations

from collections.abc import Iterator

from hawser.spec.check.topology import near
from hawser.spec.explain import Loc
from hawser.spec.names import BACKBONE, OTHERS
from hawser.spec.port import Port
from hawser.spec.topology import Bottleneck, CrossTraffic, Internet, Topology
from hawser.spec.units import Rate
from hawser.spec.validate import Issue

MAX_BOTTLENECKS = 128


def bottlenecks(topology: Topology) -> Iterator[Issue]:
    """Check the bottlenecks of a topology."""
    internet = topology.internet
    if internet is None or not internet.bottlenecks:
        return
    loc: Loc = ("topology", "internet", "bottlenecks")
    yield from _names(topology)
    if len(internet.bottlenecks) > MAX_BOTTLENECKS:
        message = f"found {len(internet.bottlenecks)}, expected at most {MAX_BOTTLENECKS}"
        yield Issue(loc, message)
    passed: dict[frozenset[Port], str] = {}
    for name, bottleneck in internet.bottlenecks.items():
        yield from _pairs(internet, name, bottleneck, passed)
        yield from _cross_traffic(
            (*loc, name, "cross_traffic"), bottleneck.cross_traffic, bottleneck.rate
        )
        reverse = bottleneck.reverse
        rate = reverse.rate or bottleneck.rate
        yield from _cross_traffic(
            (*loc, name, "reverse", "cross_traffic"), reverse.cross_traffic, rate
        )


def _names(topology: Topology) -> Iterator[Issue]:
    reserved = {
        BACKBONE: "the router behind bottlenecks",
        OTHERS: "the host that TCP connections of cross traffic start from",
    }
    for name, meaning in reserved.items():
        if name in topology.nodes:
            message = f"found the name {name!r}, which is reserved for {meaning}; expected another"
            yield Issue(("topology", "nodes", name), message, key=True)


def _pairs(
    internet: Internet, name: str, bottleneck: Bottleneck, passed: dict[frozenset[Port], str]
) -> Iterator[Issue]:
    for index, ends in enumerate(bottleneck.between):
        loc: Loc = ("topology", "internet", "bottlenecks", name, "between", index)
        unknown = [place for place, end in enumerate(ends) if end not in internet.ports]
        for place in unknown:
            yield Issue((*loc, place), near(internet.ports, ends[place], "internet port"))
        if unknown:
            continue
        pair = frozenset(ends)
        if len({end.node for end in pair}) == 1:
            yield Issue(loc, "found two ports of one node, expected ports of two nodes")
        elif pair in passed:
            message = f"found {' and '.join(ends)} again, which pass bottleneck {passed[pair]}"
            yield Issue(loc, message)
        passed.setdefault(pair, name)


def _cross_traffic(loc: Loc, cross_traffic: CrossTraffic | None, rate: Rate) -> Iterator[Issue]:
    if cross_traffic is not None and cross_traffic.udp is not None and cross_traffic.udp >= rate:
        message = f"found {cross_traffic.udp}, expected less than the bottleneck's {rate}"
        yield Issue((*loc, "udp"), message)
