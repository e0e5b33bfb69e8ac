"""IPv6 packets between the ends of a chain that is steered by SRv6.

The ends get addresses on their links, and routes to each other by way of the classifier. A header
that was inserted goes on to the target, which looks past it: no segments are left.
"""

from __future__ import annotations

from ipaddress import IPv6Network

from hawser.overlay.lab.chain.additions import Additions
from hawser.overlay.lab.chain.layout import Layout, Led
from hawser.overlay.lab.chain.segments import segments
from hawser.overlay.lab.plan import RoutePlan, RulePlan
from hawser.spec.chain import Encapsulation
from hawser.spec.course import Course
from hawser.spec.match import PROTOCOLS

_EVERYTHING = IPv6Network("::/0")

_EACH = ("all", "default")
PLAIN_ROUTER = {
    f"net.ipv6.conf.{name}.{key}": value
    for name in _EACH
    for key, value in (
        ("disable_ipv6", "0"),
        ("forwarding", "1"),
        # Addresses are given, and known to be nobody else's.
        ("accept_ra", "0"),
        ("accept_dad", "0"),
    )
}
"""Settings of a node that routes IPv6, but has no segments."""
ROUTER = PLAIN_ROUTER | {f"net.ipv6.conf.{name}.seg6_enabled": "1" for name in _EACH}
"""Settings of a node that routes IPv6 and has segments."""


def lead(layout: Layout, added: Additions, led: Led, number: int) -> None:
    """Add what leads a course's IPv6 packets."""
    course = led.courses[number]
    target = IPv6Network(layout.address6(course.legs[-1][-1].neighbour).ip)
    for hop in (course.access, *course.legs[-1]):
        for port in (hop.port, hop.neighbour):
            added.addresses[port].append(layout.address6(port))
            added.sysctl[port.node] |= ROUTER
    access, table = course.access, added.leads(number)
    listed = segments(layout, led, number, family=6)
    inserted = led.chain.encapsulation is Encapsulation.INSERTED
    via = layout.address6(access.neighbour).ip
    start = RoutePlan(to=target, via=via, interface=access.interface, mtu=led.mtu)
    added.routes[course.source].append(start)
    added.routes[course.classifier].append(
        RoutePlan(
            to=_EVERYTHING,
            interface=layout.departure(course),
            table=table,
            segments=listed[:-1] if inserted else listed,
            mode=led.chain.encapsulation,
        )
    )
    added.rules[course.classifier].append(_rule(led, course, target, table))
    for hop in course.legs[-1]:
        via = layout.address6(hop.neighbour).ip
        onward = RoutePlan(to=target, via=None if via in target else via, interface=hop.interface)
        added.routes[hop.node].append(onward)


def _rule(led: Led, course: Course, target: IPv6Network, table: int) -> RulePlan:
    asked = led.chain.match
    what = asked if course.direction == "forward" else asked.turned()
    return RulePlan(
        to=target,
        family=6,
        incoming=course.access.arrival,
        protocol=PROTOCOLS[what.protocol] if what.protocol else None,
        source_ports=what.source_ports,
        destination_ports=what.destination_ports,
        table=table,
    )
