"""Where packets leave a course that segments lead: the header comes off (RFC 8986 section 4).

With End.DX4 and End.DX6 they then go by the node's routes, with End.DT4, End.DT6 and End.DT46 by a
routing table of the course's own. For IPv4 that is the table of a VRF: Linux has no other way.
"""

from __future__ import annotations

from ipaddress import IPv6Network

from hawser.overlay.lab.chain.additions import Additions
from hawser.overlay.lab.chain.layout import Layout, Led
from hawser.overlay.lab.chain.segments import Family, last
from hawser.overlay.lab.plan import RoutePlan, SegmentPlan, VrfPlan
from hawser.overlay.lab.route import EVERYTHING
from hawser.spec.chain import Encapsulation, LastSegment
from hawser.spec.course import Course

_EVERYTHING6 = IPv6Network("::/0")


def end(layout: Layout, added: Additions, led: Led, number: int) -> None:
    """Take the header off and send packets on, at the last function's node."""
    course, how = led.courses[number], led.chain.segments.last
    if how is LastSegment.CROSS_CONNECT:
        _cross_connects(layout, added, led, number)
        return
    table, vrf = added.table(), f"vrf{number}"
    node = course.last
    added.vrfs[node].append(VrfPlan(name=vrf, table=table))
    for family in _families(led):
        added.routes[node].append(_onward(layout, course, family, table))
    if how is LastSegment.ONE_TABLE:
        segment = last(layout, led, number, 4)
        both = SegmentPlan(segment=segment, behaviour="End.DT46", interface=vrf, table=table)
        added.segments[node].append(both)
        return
    for family in _families(led):
        each = SegmentPlan(
            segment=last(layout, led, number, family),
            behaviour="End.DT4" if family == 4 else "End.DT6",
            interface=vrf,
            table=table,
        )
        added.segments[node].append(each)


def _families(led: Led) -> tuple[Family, ...]:
    """Give the families whose packets have a header that comes off."""
    inserted = led.chain.encapsulation is Encapsulation.INSERTED
    return (4, 6) if led.chain.carries_ipv6 and not inserted else (4,)


def _cross_connects(layout: Layout, added: Additions, led: Led, number: int) -> None:
    course = led.courses[number]
    (instance,) = layout.instances[course.functions[-1]]
    for family in _families(led):
        each = SegmentPlan(
            segment=last(layout, led, number, family),
            behaviour="End.DX4" if family == 4 else "End.DX6",
            interface=instance.port,
        )
        added.segments[course.last].append(each)


def _onward(layout: Layout, course: Course, family: Family, table: int) -> RoutePlan:
    """Give the way from where a course ends."""
    hop = course.legs[-1][0]
    if family == 4:
        via, interface = layout.address(hop.neighbour), hop.interface
        return RoutePlan(to=EVERYTHING, via=via, interface=interface, table=table)
    via6 = layout.address6(hop.neighbour).ip
    return RoutePlan(to=_EVERYTHING6, via=via6, interface=hop.interface, table=table)
