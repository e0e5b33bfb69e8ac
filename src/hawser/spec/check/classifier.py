"""Classifier rules: each can match packets, and these can be forwarded."""

from __future__ import annotations

from collections.abc import Iterator

from hawser.spec.check.match import match
from hawser.spec.errors import found
from hawser.spec.explain import Loc
from hawser.spec.overlay import ClassRule, Overlay, TrafficType, Transport
from hawser.spec.route import leased
from hawser.spec.topology import Topology
from hawser.spec.validate import Issue


def classifier(topology: Topology, overlay: Overlay) -> Iterator[Issue]:
    """Check the rules of an overlay whose branches fit the topology."""
    for name, rule in overlay.classes.items():
        loc: Loc = ("overlay", "classes", name)
        yield from match(loc, rule)
        yield from _destination(loc, rule, overlay)
    if overlay.classes:
        yield from _ways_out(topology, overlay)
    if overlay.classes and overlay.transport is Transport.NONE:
        message = "found rules, but with overlay.transport: none there are no gateways"
        yield Issue(("overlay", "classes"), message, key=True)


def _destination(loc: Loc, rule: ClassRule, overlay: Overlay) -> Iterator[Issue]:
    if rule.destination is None or rule.type is TrafficType.III:
        return
    prefixes = [branch.prefix for branch in overlay.branches.values()]
    if not any(rule.destination.overlaps(prefix) for prefix in prefixes):
        message = f"found {found(str(rule.destination))}, which no branch has; traffic of type"
        yield Issue((*loc, "destination"), f"{message} {rule.type} goes to branches")


def _ways_out(topology: Topology, overlay: Overlay) -> Iterator[Issue]:
    """Type III traffic leaves by an internet port, at every branch."""
    lines = leased(topology)
    for name, branch in overlay.branches.items():
        if all(port in lines for port in branch.wan_ports):
            message = "found leased lines only, but with classes traffic of type III leaves by an"
            yield Issue(("overlay", "branches", name, "wan"), f"{message} internet port")
