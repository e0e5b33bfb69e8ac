"""Decapsulation at the end of a service path steered by SRv6 (RFC 8986 section 4).

After End.DX4 and End.DX6 packets follow the node's routes, after End.DT4, End.DT6 and End.DT46 a
routing table of the service path. For IPv4 Linux requires that to be the table of a VRF.
"""

from __future__ import annotations

from ipaddress import IPv6Network

from hawser.overlay.lab.chain.additions import Additions
from hawser.overlay.lab.chain.layout import Layout, SteeredChain
from hawser.overlay.lab.chain.segments import Family, last
from hawser.overlay.lab.plan import RoutePlan, SegmentPlan, VrfPlan
from hawser.overlay.lab.route import EVERYTHING
from hawser.spec.chain import Encapsulation, LastSegment
from hawser.spec.service_path import ServicePath

_EVERYTHING6 = IPv6Network("::/0")


def end(layout: Layout, added: Additions, steered: SteeredChain, number: int) -> None:
    """Decapsulate packets at the last function's node and forward them."""
    sfp, how = steered.service_paths[number], steered.chain.segments.last
    if how is LastSegment.CROSS_CONNECT:
        _cross_connects(layout, added, steered, number)
        return
    table, vrf = added.table(), f"vrf{number}"
    node = sfp.last
    added.vrfs[node].append(VrfPlan(name=vrf, table=table))
    for family in _families(steered):
        added.routes[node].append(_onward(layout, sfp, family, table))
    if how is LastSegment.ONE_TABLE:
        segment = last(layout, steered, number, 4)
        both = SegmentPlan(segment=segment, behaviour="End.DT46", interface=vrf, table=table)
        added.segments[node].append(both)
        return
    for family in _families(steered):
        each = SegmentPlan(
            segment=last(layout, steered, number, family),
            behaviour="End.DT4" if family == 4 else "End.DT6",
            interface=vrf,
            table=table,
        )
        added.segments[node].append(each)


def _families(steered: SteeredChain) -> tuple[Family, ...]:
    """Give the address families whose packets are decapsulated."""
    inserted = steered.chain.encapsulation is Encapsulation.INSERTED
    return (4, 6) if steered.chain.carries_ipv6 and not inserted else (4,)


def _cross_connects(layout: Layout, added: Additions, steered: SteeredChain, number: int) -> None:
    sfp = steered.service_paths[number]
    (instance,) = layout.instances[sfp.functions[-1]]
    for family in _families(steered):
        each = SegmentPlan(
            segment=last(layout, steered, number, family),
            behaviour="End.DX4" if family == 4 else "End.DX6",
            interface=instance.port,
        )
        added.segments[sfp.last].append(each)


def _onward(layout: Layout, sfp: ServicePath, family: Family, table: int) -> RoutePlan:
    """Give the path from the last function's node to the target."""
    hop = sfp.legs[-1][0]
    if family == 4:
        via, interface = layout.address(hop.neighbour), hop.interface
        return RoutePlan(to=EVERYTHING, via=via, interface=interface, table=table)
    via6 = layout.address6(hop.neighbour).ip
    return RoutePlan(to=_EVERYTHING6, via=via6, interface=hop.interface, table=table)
