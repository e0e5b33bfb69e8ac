"""A resolved scenario: the values that several parts of a plan share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address

from hawser.overlay.lab.address import Addresses, addresses, names
from hawser.overlay.lab.automatic import choice
from hawser.overlay.lab.distance import changeable
from hawser.overlay.lab.fabric import fabric_of
from hawser.overlay.sdwan.fabric import Fabric
from hawser.spec.chain import Chain, Function
from hawser.spec.multipath import Subflows, subflows
from hawser.spec.topology import Topology
from hawser.spec.tunnel import Tunnel
from hawser.spec.workflow import Scenario


@dataclass(frozen=True)
class Resolved:
    """A scenario, resolved."""

    topology: Topology
    """Nodes and links, with all delays."""
    changed: frozenset[str]
    """Elements that events change."""
    addresses: Addresses
    names: Mapping[str, IPv4Address]
    """Addresses of ports and nodes by name."""
    subflows: Subflows
    fabric: Fabric | None
    """The SD-WAN."""
    gateways: frozenset[str]
    """Nodes that are branches' gateways."""
    tunnels: Mapping[str, Tunnel]
    functions: Mapping[str, Function]
    chains: Mapping[str, Chain]

    @property
    def switched(self) -> bool:
        """Whether gateways have a switch."""
        return self.fabric is not None and self.fabric.switched


def resolved(scenario: Scenario) -> Resolved:
    """Resolve a scenario that `spec.load` has checked."""
    overlay, flows = scenario.overlay, subflows(scenario)
    topology = changeable(scenario.topology, scenario.events)
    branches = overlay.branches.values() if overlay else ()
    lans = {branch.lan_port: branch.prefix for branch in branches}
    plan = addresses(topology, lans, flows.both, overlay.family if overlay else 4)
    return Resolved(
        topology=topology,
        changed=frozenset(event.element for event in scenario.events),
        addresses=plan,
        names=names(topology, lans, plan),
        subflows=flows,
        fabric=fabric_of(topology, overlay, plan, choice(scenario)) if overlay else None,
        gateways=frozenset(branch.gateway for branch in branches),
        tunnels=scenario.tunnels,
        functions=scenario.functions,
        chains=scenario.chains,
    )
