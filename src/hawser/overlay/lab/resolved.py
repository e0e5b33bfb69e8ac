"""What a scenario deploys, with everything resolved that several parts of a plan are made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hawser.overlay.lab.address import Addresses, addresses
from hawser.overlay.lab.channel import changeable
from hawser.overlay.lab.fabric import fabric_of
from hawser.overlay.lab.mptcp import Subflows, subflows
from hawser.overlay.sdwan.fabric import Fabric
from hawser.overlay.sdwan.priority import Levels
from hawser.spec.chain import Chain, Function
from hawser.spec.port import Port
from hawser.spec.topology import Topology
from hawser.spec.tunnel import Tunnel
from hawser.spec.workflow import Scenario


@dataclass(frozen=True)
class Resolved:
    """A scenario, resolved."""

    topology: Topology
    """Nodes and what joins them, with all delays."""
    changed: frozenset[str]
    """Elements that events change."""
    addresses: Addresses
    subflows: Subflows
    fabric: Fabric | None
    """The SD-WAN."""
    tunnels: Mapping[str, Tunnel]
    functions: Mapping[str, Function]
    chains: Mapping[str, Chain]

    @property
    def gateways(self) -> frozenset[str]:
        """Nodes that are branches' gateways."""
        branches = self.fabric.branches.values() if self.fabric else ()
        return frozenset(branch.gateway for branch in branches)

    @property
    def switched(self) -> bool:
        """Whether gateways have a switch."""
        return self.fabric is not None and self.fabric.switched

    @property
    def lans(self) -> dict[str, Port]:
        """Ports of gateways to their LAN, by gateway."""
        branches = self.fabric.branches.values() if self.fabric else ()
        return {branch.gateway: Port(branch.gateway, branch.lan) for branch in branches}

    def prioritised(self) -> dict[Port, Levels]:
        """Give the levels of WAN ports that a switch sends to, where their rate makes it wait."""
        if self.fabric is None or not self.fabric.switched:
            return {}
        return {
            Port(branch.gateway, name): self.fabric.levels
            for branch in self.fabric.branches.values()
            for name, port in branch.ports.items()
            if port.limited
        }


def resolved(scenario: Scenario) -> Resolved:
    """Resolve a scenario that `spec.load` has checked."""
    overlay, flows = scenario.overlay, subflows(scenario)
    topology = changeable(scenario.topology, scenario.events)
    branches = overlay.branches.values() if overlay else ()
    lans = {branch.lan_port: branch.prefix for branch in branches}
    plan = addresses(topology, lans, flows.both)
    return Resolved(
        topology=topology,
        changed=frozenset(event.element for event in scenario.events),
        addresses=plan,
        subflows=flows,
        fabric=fabric_of(topology, overlay, plan) if overlay else None,
        tunnels=scenario.tunnels,
        functions=scenario.functions,
        chains=scenario.chains,
    )
