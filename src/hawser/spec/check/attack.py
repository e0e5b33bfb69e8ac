"""Attacks: hosts and servers exist, can reach each other, and have time for all attacks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hawser.spec.attack import Attacks, Passed, least_duration
from hawser.spec.capture import Capture
from hawser.spec.check.reach import unreachable
from hawser.spec.check.topology import near
from hawser.spec.topology import Topology, node_ports
from hawser.spec.units import Duration
from hawser.spec.validate import Issue
from hawser.spec.workflow import Scenario

_SHORTEST, _LONGEST = Duration(10), Duration(3600)


def attacks(
    described: Attacks | None, topology: Topology, captures: Mapping[str, Capture]
) -> Iterator[Issue]:
    """Check attacks against the topology and its captures."""
    if described is None:
        return
    yield from _ends("from", described.source, (), topology)
    yield from _ends("to", described.target, described.source, topology)
    for index, name in enumerate(described.attackers):
        if name not in described.source:
            issue = near(described.source, name, "host of `from`")
            yield Issue(("attacks", "attackers", index), issue)
    yield from compared("attacks", described.passed, captures)
    loc = ("attacks", "duration")
    if not _SHORTEST <= described.duration <= _LONGEST:
        message = f"found {str(described.duration)!r}, expected {_SHORTEST} to {_LONGEST}"
        yield Issue(loc, message)
    elif described.duration < (least := least_duration(described)):
        message = f"found {str(described.duration)!r}, expected at least {least:g} s"
        yield Issue(loc, f"{message} for these attacks by {len(described.attacking)} of its hosts")


def attacks_arrive(scenario: Scenario) -> Iterator[Issue]:
    """Check that every host can reach every server."""
    if scenario.attacks is None:
        return
    for source in scenario.attacks.source:
        for index, target in enumerate(scenario.attacks.target):
            reason = unreachable(scenario, source, target)
            if reason is not None:
                yield Issue(("attacks", "to", index), reason)


def compared(
    element: str, described: Passed | None, captures: Mapping[str, Capture]
) -> Iterator[Issue]:
    """Check that both captures that an element compares exist and have all packets."""
    if described is None:
        return
    for field, name in (("before", described.before), ("behind", described.behind)):
        loc = (element, "passed", field)
        if name not in captures:
            yield Issue(loc, near(captures, name, "capture"))
        elif captures[name].filter:
            yield Issue(loc, f"found {name}, which has a filter, expected one without")
    if described.before == described.behind:
        yield Issue((element, "passed", "behind"), "found the same capture as before")


def _ends(
    field: str, names: tuple[str, ...], taken: tuple[str, ...], topology: Topology
) -> Iterator[Issue]:
    ports = node_ports(topology)
    for index, name in enumerate(names):
        loc = ("attacks", field, index)
        if name not in ports:
            yield Issue(loc, near(ports, name, "node of this lab"))
        elif not ports[name]:
            yield Issue(loc, f"found {name}, which has no links and no internet access")
        elif name in names[:index] or name in taken:
            yield Issue(loc, f"found {name} again, expected each node once")
