"""A replay: its nodes have one link each, a chain is between them, and nothing else has labels."""

from __future__ import annotations

from collections.abc import Iterator

from hawser.spec.check.attack import compared
from hawser.spec.check.topology import near
from hawser.spec.topology import backward, node_ports
from hawser.spec.validate import Issue
from hawser.spec.workflow import Scenario


def replay(scenario: Scenario) -> Iterator[Issue]:
    """Check a replay against the topology, its captures and chains."""
    described = scenario.replay
    if described is None:
        return
    ports = node_ports(scenario.topology)
    for field, name in (("from", described.source), ("to", described.target)):
        loc = ("replay", field)
        if name not in scenario.topology.nodes:
            yield Issue(loc, near(scenario.topology.nodes, name, "node"))
        elif len(ports.get(name, ())) != 1:
            count = len(ports.get(name, ()))
            yield Issue(loc, f"found {name}, which has {count} ports, expected a node with one")
    yield from _shaped(scenario, {described.source, described.target})
    if scenario.attacks is not None:
        message = "found attacks too, expected one of both: each labels all flows"
        yield Issue(("replay",), message, key=True)
    ends = {described.source, described.target}
    if not any({chain.source, chain.target} == ends for chain in scenario.chains.values()):
        message = f"found no chain between {described.source} and {described.target}"
        yield Issue(("replay",), f"{message}, which frames would pass", key=True)
    yield from compared("replay", described.passed, scenario.capture)


def _shaped(scenario: Scenario, ends: set[str]) -> Iterator[Issue]:
    """Find links of the ends that the kernel's routes lead to: they know no recorded address."""
    for name, link in scenario.topology.links.items():
        is_shaped = any(way.rate is not None or way.impaired for way in (link, backward(link)))
        if is_shaped and not ends.isdisjoint(port.node for port in link.ends):
            message = f"found link {name} with a rate, delay or loss, expected one without"
            yield Issue(("replay",), f"{message}: recorded addresses have no routes", key=True)
