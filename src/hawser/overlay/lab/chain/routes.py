"""Steering by plain routes: the interface at which a packet arrives tells its place in the chain.

SRv6 uses the rules that match the packets of a chain, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network

from hawser.overlay.lab.chain.additions import Additions
from hawser.overlay.lab.chain.layout import OWN_PORT, Layout, SteeredChain
from hawser.overlay.lab.chain.sfc_unaware import answered
from hawser.overlay.lab.plan import RoutePlan, RulePlan
from hawser.overlay.lab.route import EVERYTHING
from hawser.spec.chain import Steering
from hawser.spec.match import PROTOCOLS, Match
from hawser.spec.service_path import ServicePath

Step = tuple[str, str, IPv4Address, str]
"""Node, the interface at which packets arrive, and the neighbour and interface of the next hop."""


def steer(layout: Layout, added: Additions) -> None:
    """Add the rules and routes of all chains that are steered by routes."""
    for steered, number, sfp in layout.by(Steering.ROUTES):
        for node, incoming, via, interface in _steps(layout, sfp):
            table = added.steering_table(number)
            route = RoutePlan(to=EVERYTHING, via=via, interface=interface, table=table)
            added.routes[node].append(route)
            added.rules[node] += rules(layout, steered, sfp, incoming, table)
        for name in sfp.functions:
            for each in layout.instances[name]:
                if each.function.kind.sfc_unaware:
                    continue  # it has that route already
                back = RoutePlan(to=EVERYTHING, via=each.ends[0].ip, interface=OWN_PORT)
                added.routes[each.name].append(back)


def rules(
    layout: Layout, steered: SteeredChain, sfp: ServicePath, incoming: str, table: int
) -> Iterator[RulePlan]:
    """Give the rules that select a routing table for a service path's packets arriving here."""
    for what in matches(layout, steered, sfp):
        yield RulePlan(
            source=what.source,
            to=what.destination,
            incoming=incoming,
            protocol=PROTOCOLS[what.protocol] if what.protocol else None,
            source_ports=what.source_ports,
            destination_ports=what.destination_ports,
            table=table,
        )


def matches(layout: Layout, steered: SteeredChain, sfp: ServicePath) -> Iterator[Match]:
    """Give matches for a service path's packets; by default for all packets to its target."""
    asked = steered.chain.match
    what = asked if sfp.direction == "forward" else asked.turned()
    for own in answered(layout, sfp):
        yield what.model_copy(update={"destination": IPv4Network(own)})
    if what.destination is not None:
        yield what
        return
    for address in layout.of(sfp.target):
        yield what.model_copy(update={"destination": address})


def _steps(layout: Layout, sfp: ServicePath) -> Iterator[Step]:
    incoming = sfp.access.arrival
    for leg, name in zip(sfp.legs, sfp.functions, strict=False):
        for hop in leg:
            yield hop.node, incoming, layout.address(hop.neighbour), hop.interface
            incoming = hop.arrival
        (instance,) = layout.instances[name]
        yield instance.node, incoming, instance.ends[1].ip, instance.port
        incoming = instance.port
