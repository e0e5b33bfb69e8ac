"""IPv6 packets between the ends of a chain that is steered by SRv6.

The ends get addresses on their links, and routes to each other through the classifier. An inserted
header stays on the packet up to the target, which ignores it because no segments are left.
"""

from __future__ import annotations

from ipaddress import IPv6Network

from hawser.overlay.lab.chain.additions import Additions
from hawser.overlay.lab.chain.layout import Layout, SteeredChain
from hawser.overlay.lab.chain.segments import segments
from hawser.overlay.lab.plan import RoutePlan, RulePlan
from hawser.overlay.lab.sysctl import IPV6
from hawser.spec.chain import Encapsulation
from hawser.spec.match import PROTOCOLS
from hawser.spec.service_path import ServicePath

_EVERYTHING = IPv6Network("::/0")

ROUTER = IPV6 | {f"net.ipv6.conf.{name}.seg6_enabled": "1" for name in ("all", "default")}
"""Settings of a node that routes IPv6 and has segments."""


def steer(layout: Layout, added: Additions, steered: SteeredChain, number: int) -> None:
    """Steer a service path's IPv6 packets."""
    sfp = steered.service_paths[number]
    target = IPv6Network(layout.address6(sfp.legs[-1][-1].neighbour).ip)
    for hop in (sfp.access, *sfp.legs[-1]):
        for port in (hop.port, hop.neighbour):
            added.addresses[port].append(layout.address6(port))
            added.sysctl[port.node] |= ROUTER
    access, table = sfp.access, added.steering_table(number)
    listed = segments(layout, steered, number, family=6)
    inserted = steered.chain.encapsulation is Encapsulation.INSERTED
    via = layout.address6(access.neighbour).ip
    start = RoutePlan(to=target, via=via, interface=access.interface, mtu=steered.mtu)
    added.routes[sfp.source].append(start)
    added.routes[sfp.classifier].append(
        RoutePlan(
            to=_EVERYTHING,
            interface=layout.departure(sfp),
            table=table,
            segments=listed[:-1] if inserted else listed,
            mode=steered.chain.encapsulation,
        )
    )
    added.rules[sfp.classifier].append(_rule(steered, sfp, target, table))
    for hop in sfp.legs[-1]:
        via = layout.address6(hop.neighbour).ip
        onward = RoutePlan(to=target, via=None if via in target else via, interface=hop.interface)
        added.routes[hop.node].append(onward)


def _rule(steered: SteeredChain, sfp: ServicePath, target: IPv6Network, table: int) -> RulePlan:
    asked = steered.chain.match
    what = asked if sfp.direction == "forward" else asked.turned()
    return RulePlan(
        to=target,
        family=6,
        incoming=sfp.access.arrival,
        protocol=PROTOCOLS[what.protocol] if what.protocol else None,
        source_ports=what.source_ports,
        destination_ports=what.destination_ports,
        table=table,
    )
