"""Who opens Multipath TCP connections, and who takes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hawser.spec.measurement import Iperf3, Protocol
from hawser.spec.overlay import Transport
from hawser.spec.port import node_of
from hawser.spec.workflow import Scenario


def tunnel_ends(scenario: Scenario) -> tuple[list[str], list[str]]:
    """Give the gateways that connect to another branch, and those that listen.

    Of two branches the one with the lower id connects (004 section III.A), so with three or more
    branches those in the middle do both.
    """
    overlay = scenario.overlay
    if overlay is None or overlay.transport is not Transport.MPTCP:
        return [], []
    by_id = sorted(overlay.branches.values(), key=lambda branch: branch.id)
    gateways = [branch.gateway for branch in by_id]
    return gateways[:-1], gateways[1:]


def measured_ends(scenario: Scenario) -> Iterator[tuple[str, str, str]]:
    """Give name, connecting and listening node of every measurement of MPTCP over the internet."""
    internet = scenario.topology.internet
    wan = {port.node for port in internet.ports} if internet else set()
    for name, measurement in scenario.measurements.items():
        if isinstance(measurement, Iperf3) and measurement.protocol is Protocol.MPTCP:
            ends = [node_of(end) for end in (measurement.source, measurement.target)]
            if wan.issuperset(ends):
                yield name, ends[0], ends[1]


@dataclass(frozen=True)
class Subflows:
    """Nodes that have Multipath TCP connections over the internet."""

    connects: frozenset[str]
    listens: frozenset[str]
    managed: frozenset[str]
    """Gateways whose daemon makes the subflows."""

    @property
    def both(self) -> frozenset[str]:
        """Give those that open connections and take some."""
        return self.connects & self.listens


def subflows(scenario: Scenario) -> Subflows:
    """Give the nodes that open MPTCP connections over the internet, and those that take them."""
    connects, listens = map(set, tunnel_ends(scenario))
    gateways = connects | listens
    measured = {(source, target) for _, source, target in measured_ends(scenario)}
    connects |= {source for source, _ in measured}
    listens |= {target for _, target in measured}
    managed = gateways - {node for ends in measured for node in ends}
    return Subflows(frozenset(connects), frozenset(listens), frozenset(managed))
