"""Steering by segment routing over IPv6 (RFC 8986), carried out by the kernel.

The classifier puts a header with all segments in front of a packet (H.Encaps). Each function is a
segment at which a packet goes on to the next (End); at the last function's node another one takes
the header off (End.DX4).

    5f00:0:N::/48        node N
    5f00:0:N:F::1        function F, at node N
    5f00:0:N:F::2        the same, where answers come to its proxy
    5f00:0:N::C          where course C ends
    5f00:0:N::6:C        where it ends for IPv6 packets (End.DX6)

A function that knows nothing of this is no segment: its proxy is, a node between (`proxy` below).
"""

from __future__ import annotations

from ipaddress import IPv6Address, IPv6Network
from typing import Literal

from hawser.overlay.chain import ipv6, proxy
from hawser.overlay.chain.additions import Additions
from hawser.overlay.chain.ipv6 import ROUTER
from hawser.overlay.chain.layout import OWN_PORT, Instance, Layout, Led, out
from hawser.overlay.chain.routes import rules
from hawser.overlay.plan import RoutePlan, SegmentPlan
from hawser.overlay.route import EVERYTHING
from hawser.spec.address import SEGMENTS
from hawser.spec.chain import Encapsulation, Steering
from hawser.spec.course import Course

_NODE, _FUNCTION = 80, 64
"""Bits to the right of a node's number and of a function's."""
_IPV6 = 6 << 16
"""What a segment has more where IPv6 packets leave their course."""

_EVERYTHING6 = IPv6Network("::/0")


def steer(layout: Layout, added: Additions) -> None:
    """Add the segments, routes and addresses of all chains that are steered by SRv6."""
    for led, number, course in layout.by(Steering.SRV6):
        _classify(layout, added, led, number, course)
        _reach(layout, added, course)
        for name in course.functions:
            (instance,) = layout.instances[name]
            if instance.proxy:
                lists = [segments(layout, number, course)]
                if led.chain.carries_ipv6:
                    lists.append(segments(layout, number, course, family=6))
                proxy.stand_in(layout, added, instance, course, lists)
            else:
                _function(layout, added, instance)
            for node in (instance.node, instance.proxy or instance.name):
                added.sysctl[node] |= ROUTER
        _end(layout, added, number, course)
        if led.chain.carries_ipv6:
            ipv6.lead(layout, added, led, course, segments(layout, number, course, family=6))


def segments(
    layout: Layout, number: int, course: Course, *, family: Literal[4, 6] = 4
) -> tuple[IPv6Address, ...]:
    """Give the segment list of a course, in the order in which its packets pass."""
    functions = (layout.instances[name][0] for name in course.functions)
    passed = (segment_of(layout, each, course) for each in functions)
    return (*passed, _last(layout, number, course) + (_IPV6 if family == 6 else 0))


def _classify(layout: Layout, added: Additions, led: Led, number: int, course: Course) -> None:
    table = added.table()
    interface = layout.departure(course)
    route = RoutePlan(
        to=EVERYTHING,
        interface=interface,
        table=table,
        segments=segments(layout, number, course),
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
            for port in (out(hop), hop.neighbour):
                added.addresses[port].append(layout.address6(port))
                added.sysctl[port.partition(".")[0]] |= ROUTER
            via = layout.address6(hop.neighbour).ip
            route = RoutePlan(to=_locator(layout, node), via=via, interface=hop.interface)
            added.routes[hop.node].append(route)


def _function(layout: Layout, added: Additions, instance: Instance) -> None:
    here, there = instance.ends6
    segment = _address(layout, instance)
    added.addresses[f"{instance.node}.{instance.port}"].append(here)
    added.addresses[f"{instance.name}.{OWN_PORT}"].append(there)
    to = RoutePlan(to=IPv6Network(segment), via=there.ip, interface=instance.port)
    added.routes[instance.node].append(to)
    back = RoutePlan(to=_EVERYTHING6, via=here.ip, interface=OWN_PORT)
    added.routes[instance.name].append(back)
    end = SegmentPlan(segment=segment, behaviour="End", interface=OWN_PORT)
    added.segments[instance.name].append(end)


def _end(layout: Layout, added: Additions, number: int, course: Course) -> None:
    """Take the header off and send the packet on, where the last function is."""
    (instance,) = layout.instances[course.functions[-1]]
    end = SegmentPlan(
        segment=_last(layout, number, course),
        behaviour="End.DX4",
        interface=instance.port,
    )
    added.segments[course.last].append(end)


def _number(layout: Layout, node: str) -> int:
    return list(layout.topology.nodes).index(node) + 1


def _locator(layout: Layout, node: str) -> IPv6Network:
    start = int(SEGMENTS.network_address) + (_number(layout, node) << _NODE)
    return IPv6Network((start, 128 - _NODE))


def segment_of(layout: Layout, instance: Instance, course: Course) -> IPv6Address:
    """Give the segment of a function in a course; a proxy has one for each direction."""
    answers = instance.proxy is not None and course.direction == "reverse"
    return _address(layout, instance) + answers


def _address(layout: Layout, instance: Instance) -> IPv6Address:
    locator = _locator(layout, instance.node).network_address
    return locator + (instance.number << _FUNCTION) + 1


def _last(layout: Layout, number: int, course: Course) -> IPv6Address:
    return _locator(layout, course.last).network_address + number
