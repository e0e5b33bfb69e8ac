"""Tunnels: their ends exist, and lead to different sides."""

from __future__ import annotations

from collections.abc import Iterator

from hawser.spec.check.topology import near
from hawser.spec.explain import Loc
from hawser.spec.topology import Topology
from hawser.spec.tunnel import Tunnel, sides
from hawser.spec.validate import Issue
from hawser.spec.workflow import Scenario


def tunnels(scenario: Scenario) -> Iterator[Issue]:
    """Check the tunnels of a scenario whose topology is right."""
    used: dict[str, str] = {}
    for name, tunnel in scenario.tunnels.items():
        loc: Loc = ("tunnels", name, "ends")
        unknown = list(_ends(scenario.topology, tunnel, loc))
        yield from unknown
        if not unknown:
            yield from _apart(scenario, tunnel, loc)
        for index, end in enumerate(tunnel.ends):
            if end.node in used:
                message = (
                    f"found {end.node}, where tunnel {used[end.node]} ends; expected one a node"
                )
                yield Issue((*loc, index), message)
        used |= {end.node: name for end in tunnel.ends}


def _ends(topology: Topology, tunnel: Tunnel, loc: Loc) -> Iterator[Issue]:
    ports = [end for link in topology.links.values() for end in link.ends]
    for index, end in enumerate(tunnel.ends):
        if end not in ports:
            yield Issue((*loc, index), near(ports, end, "port of a link"))


def _apart(scenario: Scenario, tunnel: Tunnel, loc: Loc) -> Iterator[Issue]:
    first, second = sides(scenario.topology, tunnel, scenario.tunnels.values())
    if first is second:
        message = f"found {' and '.join(tunnel.ends)}, whose nodes are joined beside the tunnel too"
        yield Issue(loc, message)
