"""Steering by plain routes: where a packet comes from says where in its chain it is.

Also what srv6 needs of it: rules that tell a chain's packets from others.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network

from hawser.overlay.lab.chain.additions import Additions
from hawser.overlay.lab.chain.bare import answered
from hawser.overlay.lab.chain.layout import OWN_PORT, Layout, Led
from hawser.overlay.lab.plan import RoutePlan, RulePlan
from hawser.overlay.lab.route import EVERYTHING
from hawser.spec.chain import Steering
from hawser.spec.course import Course
from hawser.spec.match import PROTOCOLS, Match

Step = tuple[str, str, IPv4Address, str]
"""Node, the interface at which packets come, and the neighbour and interface they go on to."""


def steer(layout: Layout, added: Additions) -> None:
    """Add the rules and routes of all chains that are steered by routes."""
    for led, number, course in layout.by(Steering.ROUTES):
        for node, incoming, via, interface in _steps(layout, course):
            table = added.leads(number)
            route = RoutePlan(to=EVERYTHING, via=via, interface=interface, table=table)
            added.routes[node].append(route)
            added.rules[node] += rules(layout, led, course, incoming, table)
        for name in course.functions:
            for each in layout.instances[name]:
                if each.function.kind.bare:
                    continue  # it has that already
                back = RoutePlan(to=EVERYTHING, via=each.ends[0].ip, interface=OWN_PORT)
                added.routes[each.name].append(back)


def rules(
    layout: Layout, led: Led, course: Course, incoming: str, table: int
) -> Iterator[RulePlan]:
    """Give the rules by which a course's packets that come in here look in a table."""
    for what in matches(layout, led, course):
        yield RulePlan(
            source=what.source,
            to=what.destination,
            incoming=incoming,
            protocol=PROTOCOLS[what.protocol] if what.protocol else None,
            source_ports=what.source_ports,
            destination_ports=what.destination_ports,
            table=table,
        )


def matches(layout: Layout, led: Led, course: Course) -> Iterator[Match]:
    """Give what a course's packets look like: they go to its end, unless a match says where."""
    asked = led.chain.match
    what = asked if course.direction == "forward" else asked.turned()
    for own in answered(layout, course):
        yield what.model_copy(update={"destination": IPv4Network(own)})
    if what.destination is not None:
        yield what
        return
    for address in layout.of(course.target):
        yield what.model_copy(update={"destination": address})


def _steps(layout: Layout, course: Course) -> Iterator[Step]:
    incoming = course.access.arrival
    for leg, name in zip(course.legs, course.functions, strict=False):
        for hop in leg:
            yield hop.node, incoming, layout.address(hop.neighbour), hop.interface
            incoming = hop.arrival
        (instance,) = layout.instances[name]
        yield instance.node, incoming, instance.ends[1].ip, instance.port
        incoming = instance.port
