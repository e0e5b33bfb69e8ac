"""Computes the plan of a lab from a scenario."""

from __future__ import annotations

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
    whole = chained(lab, openflow.switched(controlled(scenario, lab, made)))
    return whole if facts is None else realised(whole, facts)
