"""A collector: its node exists and does nothing else, and there are sensors with records."""

from __future__ import annotations

from collections.abc import Iterator

from hawser.spec.chain import FunctionKind
from hawser.spec.check.topology import near
from hawser.spec.topology import node_ports
from hawser.spec.validate import Issue
from hawser.spec.workflow import Scenario


def collector(scenario: Scenario) -> Iterator[Issue]:
    """Check a collector against the topology and the functions of its chains."""
    if scenario.collector is None:
        return
    node, loc = scenario.collector.node, ("collector", "node")
    ports = node_ports(scenario.topology)
    if node not in scenario.topology.nodes:
        yield Issue(loc, near(scenario.topology.nodes, node, "node"))
    elif ports.get(node):
        yield Issue(loc, f"found {node}, which has links, expected a node without any")
    elif any(function.node == node for function in scenario.functions.values()):
        yield Issue(loc, f"found {node}, which has functions, expected a node without any")
    used = {name for chain in scenario.chains.values() for name in chain.functions}
    kinds = {each.kind for name, each in scenario.functions.items() if name in used}
    if FunctionKind.IDS not in kinds:
        message = "found no function of kind ids in a chain, whose records it would collect"
        yield Issue(("collector",), message, key=True)
