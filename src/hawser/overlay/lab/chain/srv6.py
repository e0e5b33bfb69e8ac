"""Steering by segment routing over IPv6 (RFC 8986), carried out by the kernel.

The classifier puts a header with all segments in front of a packet (H.Encaps). Each function is a
segment at which a packet goes on to the next (End); at the last function's node another one takes
the header off (End.DX4).

With End.X the function's node has its segment, and sends packets to it. A function that is behind a
proxy is no segment: the proxy is, a node between (`proxy` below).
"""

from __future__ import annotations

from ipaddress import IPv6Network

from hawser.overlay.lab.chain import decapsulation, ipv6, proxy
from hawser.overlay.lab.chain.additions import Additions
from hawser.overlay.lab.chain.ipv6 import PLAIN_ROUTER, ROUTER
from hawser.overlay.lab.chain.layout import OWN_PORT, Instance, Layout, Led
from hawser.overlay.lab.chain.routes import rules
from hawser.overlay.lab.chain.segments import locator, of_function, segments
from hawser.overlay.lab.plan import RoutePlan, SegmentPlan
from hawser.overlay.lab.route import EVERYTHING
from hawser.spec.chain import Encapsulation, FunctionSegment, Steering
from hawser.spec.course import Course
from hawser.spec.port import Port

_EVERYTHING6 = IPv6Network("::/0")


def steer(layout: Layout, added: Additions) -> None:
    """Add the segments, routes and addresses of all chains that are steered by SRv6."""
    for led, number, course in layout.by(Steering.SRV6):
        _classify(layout, added, led, number, course)
        _reach(layout, added, course)
        for name in course.functions:
            (instance,) = layout.instances[name]
            if instance.proxy:
                lists = [segments(layout, led, number)]
                if led.chain.carries_ipv6:
                    lists.append(segments(layout, led, number, family=6))
                proxy.stand_in(layout, added, instance, course, lists)
                added.sysctl[instance.proxy] |= ROUTER
            else:
                _function(layout, added, led, number, instance)
            added.sysctl[instance.node] |= ROUTER
        decapsulation.end(layout, added, led, number)
        if led.chain.carries_ipv6:
            ipv6.lead(layout, added, led, number)


def _classify(layout: Layout, added: Additions, led: Led, number: int, course: Course) -> None:
    table = added.leads(number)
    interface = layout.departure(course)
    route = RoutePlan(
        to=EVERYTHING,
        interface=interface,
        table=table,
        segments=segments(layout, led, number),
        mode=_around(led.chain.encapsulation),
    )
    added.routes[course.classifier].append(route)
    node = course.classifier
    added.rules[node] += rules(layout, led, course, course.access.arrival, table)
    added.sysctl[node] |= ROUTER


def _around(mode: Encapsulation) -> Encapsulation:
    """Give what is done with IPv4 packets, whose header nothing can be inserted into."""
    return Encapsulation.WHOLE if mode is Encapsulation.INSERTED else mode


def _reach(layout: Layout, added: Additions, course: Course) -> None:
    """Lead to the nodes of the functions, over the links that the course passes."""
    for leg, node in zip(course.legs, course.nodes, strict=False):
        for hop in leg:
            for port in (hop.port, hop.neighbour):
                added.addresses[port].append(layout.address6(port))
                added.sysctl[port.node] |= ROUTER
            via = layout.address6(hop.neighbour).ip
            route = RoutePlan(to=locator(layout, node), via=via, interface=hop.interface)
            added.routes[hop.node].append(route)


def _function(layout: Layout, added: Additions, led: Led, number: int, instance: Instance) -> None:
    """Add the segment of a function that no proxy stands in for, at the function or at its node."""
    here, there = instance.ends6
    added.addresses[instance.node_end].append(here)
    added.addresses[Port(instance.name, OWN_PORT)].append(there)
    back = RoutePlan(to=_EVERYTHING6, via=here.ip, interface=OWN_PORT)
    added.routes[instance.name].append(back)
    segment = of_function(layout, led, led.courses[number], instance)
    if led.chain.segments.function is FunctionSegment.CROSS_CONNECT:
        added.sysctl[instance.name] |= PLAIN_ROUTER
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
