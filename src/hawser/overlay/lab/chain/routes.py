"""Steering by plain routes: where a packet comes from says where in its chain it is.

Also what srv6 needs of it: rules that tell a chain's packets from others.
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
"""Node, the interface at which packets come, and the neighbour and interface they go on to."""


def steer(layout: Layout, added: Additions) -> None:
    """Add the rules and routes of all chains that are steered by routes."""
    for steered, number, sfp in layout.by(Steering.ROUTES):
        for node, incoming, via, interface in _steps(layout, sfp):
            table = added.leads(number)
            route = RoutePlan(to=EVERYTHING, via=via, interface=interface, table=table)
            added.routes[node].append(route)
            added.rules[node] += rules(layout, steered, sfp, incoming, table)
        for name in sfp.functions:
            for each in layout.instances[name]:
                if each.function.kind.sfc_unaware:
                    continue  # it has that already
                back = RoutePlan(to=EVERYTHING, via=each.ends[0].ip, interface=OWN_PORT)
                added.routes[each.name].append(back)


def rules(
    layout: Layout, steered: SteeredChain, sfp: ServicePath, incoming: str, table: int
) -> Iterator[RulePlan]:
    """Give the rules by which a service path's packets that come in here look in a table."""
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
