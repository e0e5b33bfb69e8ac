"""Computes the plan of a lab from a scenario."""

from __future__ import annotations

from ipaddress import IPv6Address, IPv6Interface

from hawser.overlay.lab import openflow
from hawser.overlay.lab.bottleneck import bottlenecks
from hawser.overlay.lab.chain import chained
from hawser.overlay.lab.channel import shapers
from hawser.overlay.lab.controller import controlled
from hawser.overlay.lab.emulator import realised
from hawser.overlay.lab.facts import Facts
from hawser.overlay.lab.gateway import daemons
from hawser.overlay.lab.node import links, nodes
from hawser.overlay.lab.plan import NetworkPlan
from hawser.overlay.lab.resolved import resolved
from hawser.overlay.lab.tunnel import tunnels
from hawser.spec.port import Port
from hawser.spec.workflow import Scenario


def network(scenario: Scenario, facts: Facts | None = None) -> NetworkPlan:
    """Compute everything that a driver must create.

    The same arguments always give the same plan.

    Args:
        scenario: one that `spec.load` has checked.
        facts: capabilities of the machines. Without them the plan does not choose between netem
            and the WAN emulator.
    """
    lab = resolved(scenario)
    added = bottlenecks(lab.topology.internet, lab.addresses)
    made = NetworkPlan(
        links=(*links(lab), *added.links),
        nodes=tuple(nodes(lab, added)),
        shapers=(
            *shapers(lab.topology, lab.addresses, lab.changed, lab.fabric),
            *added.shapers,
        ),
        daemons=tuple(daemons(lab.fabric)),
        addresses=dict(lab.names),
        tunnels=tuple(tunnels(lab.topology, lab.tunnels, lab.addresses)),
        cross_traffic=added.cross_traffic,
    )
    whole = _named6(chained(lab, openflow.switched(controlled(scenario, lab, made))), scenario)
    return whole if facts is None else realised(whole, facts)


def _named6(plan: NetworkPlan, scenario: Scenario) -> NetworkPlan:
    """Give a plan with the IPv6 addresses of the topology's nodes by name."""
    named: dict[str, IPv6Address] = {}
    for node in plan.nodes:
        for interface in node.interfaces if node.name in scenario.topology.nodes else ():
            for address in interface.addresses:
                if isinstance(address, IPv6Interface):
                    named.setdefault(node.name, address.ip)
                    named.setdefault(Port(node.name, interface.name), address.ip)
    return plan.model_copy(update={"addresses6": named})
