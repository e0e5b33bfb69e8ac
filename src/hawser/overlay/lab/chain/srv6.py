"""Steering by segment routing over IPv6 (RFC 8986) in the kernel.

The classifier encapsulates packets with all segments (H.Encaps). Each function is a segment (End);
a last segment at the last function's node decapsulates them (End.DX4).

With End.X the segment is at the function's node, which forwards packets to the function. The
segment of a function behind a proxy is at the proxy.
"""

from __future__ import annotations

from ipaddress import IPv6Network

from hawser.overlay.lab.chain import decapsulation, edge, ipv6, proxy
from hawser.overlay.lab.chain.additions import Additions
from hawser.overlay.lab.chain.ipv6 import ROUTER
from hawser.overlay.lab.chain.layout import OWN_PORT, Instance, Layout, SteeredChain
from hawser.overlay.lab.chain.routes import rules
from hawser.overlay.lab.chain.segments import locator, of_function, segments
from hawser.overlay.lab.plan import RoutePlan, SegmentPlan
from hawser.overlay.lab.route import EVERYTHING
from hawser.overlay.lab.sysctl import IPV6
from hawser.spec.chain import Encapsulation, FunctionSegment, Steering
from hawser.spec.port import Port
from hawser.spec.service_path import ServicePath

_EVERYTHING6 = IPv6Network("::/0")


def steer(layout: Layout, added: Additions) -> None:
    """Add the segments, routes and addresses of all chains that are steered by SRv6."""
    for steered, number, sfp in layout.by(Steering.SRV6):
        _classify(layout, added, steered, number, sfp)
        _reach(layout, added, sfp)
        for name in sfp.functions:
            (instance,) = layout.instances[name]
            if instance.proxy:
                lists = [segments(layout, steered, number)]
                if steered.chain.carries_ipv6:
                    lists.append(segments(layout, steered, number, family=6))
                proxy.stand_in(layout, added, instance, sfp, lists)
                added.sysctl[instance.proxy] |= ROUTER
            else:
                _function(layout, added, steered, number, instance)
            added.sysctl[instance.node] |= ROUTER
        decapsulation.end(layout, added, steered, number)
        if steered.chain.carries_ipv6:
            ipv6.steer(layout, added, steered, number)
    edge.close(layout, added)


def _classify(
    layout: Layout, added: Additions, steered: SteeredChain, number: int, sfp: ServicePath
) -> None:
    table = added.steering_table(number)
    interface = layout.departure(sfp)
    route = RoutePlan(
        to=EVERYTHING,
        interface=interface,
        table=table,
        segments=segments(layout, steered, number),
        mode=_around(steered.chain.encapsulation),
    )
    added.routes[sfp.classifier].append(route)
    node = sfp.classifier
    added.rules[node] += rules(layout, steered, sfp, sfp.access.arrival, table)
    added.sysctl[node] |= ROUTER


def _around(mode: Encapsulation) -> Encapsulation:
    """Give the encapsulation of IPv4 packets, into which no header can be inserted."""
    return Encapsulation.WHOLE if mode is Encapsulation.INSERTED else mode


def _reach(layout: Layout, added: Additions, sfp: ServicePath) -> None:
    """Add routes to the functions' nodes over the links of the service path."""
    for leg, node in zip(sfp.legs, sfp.nodes, strict=False):
        for hop in leg:
            for port in (hop.port, hop.neighbour):
                added.addresses[port].append(layout.address6(port))
                added.sysctl[port.node] |= ROUTER
            via = layout.address6(hop.neighbour).ip
            route = RoutePlan(to=locator(layout, node), via=via, interface=hop.interface)
            added.routes[hop.node].append(route)


def _function(
    layout: Layout, added: Additions, steered: SteeredChain, number: int, instance: Instance
) -> None:
    """Add the segment of a function without a proxy, at the function or at its node."""
    here, there = instance.ends6
    added.addresses[instance.node_end].append(here)
    added.addresses[Port(instance.name, OWN_PORT)].append(there)
    back = RoutePlan(to=_EVERYTHING6, via=here.ip, interface=OWN_PORT)
    added.routes[instance.name].append(back)
    segment = of_function(layout, steered, steered.service_paths[number], instance)
    if steered.chain.segments.function is FunctionSegment.CROSS_CONNECT:
        added.sysctl[instance.name] |= IPV6
        cross = SegmentPlan(
            segment=segment, behaviour="End.X", interface=instance.port, via=there.ip
        )
        added.segments[instance.node].append(cross)
        return
    added.sysctl[instance.name] |= ROUTER
    to = RoutePlan(to=IPv6Network(segment), via=there.ip, interface=instance.port)
    added.routes[instance.node].append(to)
    end = SegmentPlan(segment=segment, behaviour="End", interface=OWN_PORT)
    added.segments[instance.name].append(end)
