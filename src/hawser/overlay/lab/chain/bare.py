"""Functions that know nothing of chains (RFC 7665 section 4.6): the kernel, and programs of others.

Packets come to such a function as their sender made them, and go back by its only cable. It has an
address that others reach, for connections of its own and for answers to addresses that it put in
the place of a sender's. Where segments lead, it has two cables, to a proxy (`proxy`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address, IPv4Network

from hawser.overlay.lab.chain.additions import Additions
from hawser.overlay.lab.chain.layout import OWN_PORT, Instance, Layout
from hawser.overlay.lab.plan import ProgramPlan, RoutePlan, RulePlan, TunnelPlan
from hawser.overlay.lab.route import EVERYTHING
from hawser.spec.chain import PLACE, Function, FunctionKind, RouteAction
from hawser.spec.course import Course
from hawser.spec.tunnel import TunnelKind
from hawser.spec.way import first_hops

_KINDS = {
    RouteAction.DROP: "blackhole",
    RouteAction.UNREACHABLE: "unreachable",
    RouteAction.PROHIBIT: "prohibit",
}


def join(layout: Layout, added: Additions) -> None:
    """Lead to the addresses of all such functions, and out of them."""
    for each in bare(layout):
        if each.proxy is None:
            added.routes[each.name] += routes(each.function, each.ends[0].ip, OWN_PORT)
        if each.function.kind is FunctionKind.IPSEC:
            _into_tunnel(added, each)
        for node in layout.topology.nodes:
            hop = first_hops(layout.topology, node).get(each.node)
            if hop is not None:
                route = RoutePlan(
                    to=IPv4Network(_reached(each)),
                    via=layout.address(hop.neighbour),
                    interface=hop.interface,
                    mtu=_room(layout, node),
                )
                added.routes[node].append(route)


def _reached(instance: Instance) -> IPv4Address:
    """Give the address that answers to packets of a chain come to, where it is their sender."""
    return (instance.sides[1] if instance.proxy else instance).ends[1].ip


def _room(layout: Layout, node: str) -> int | None:
    """Give the room that an end of chains has for answers, which may be led."""
    rooms = [led.mtu for led in layout.led if node in (led.chain.source, led.chain.target)]
    return min(rooms, default=None)


def bare(layout: Layout) -> Iterator[Instance]:
    """Give the instances of such functions."""
    return (each for each in layout.every() if each.function.kind.bare)


def answered(layout: Layout, course: Course) -> Iterator[IPv4Address]:
    """Give the addresses that answers go to which a function has put in the place of the sender's.

    Of several instances none is given: what chooses one would not choose that which has the flow.
    Such answers go straight to it.
    """
    for name in course.functions if course.direction == "reverse" else ():
        instances = layout.instances[name]
        if instances[0].function.kind is FunctionKind.PROXY and len(instances) == 1:
            yield _reached(instances[0])


def programs(layout: Layout, addresses: Mapping[str, IPv4Address]) -> Iterator[ProgramPlan]:
    """Give the programs of functions, with addresses where they have names."""
    for each in layout.every():
        function = each.function
        if function.kind is FunctionKind.PROXY:
            yield ProgramPlan(
                node=each.name,
                setup=tuple(_filled(command, addresses) for command in function.setup),
                command=_filled(function.command, addresses),
                files={name: _fill(text, addresses) for name, text in function.files.items()},
            )


def tunnels(layout: Layout) -> Iterator[TunnelPlan]:
    """Give both ends of the tunnels between functions, the one that a chain passes first first."""
    ends = {each.name: each for each in bare(layout) if each.function.peer is not None}
    first = [name for led in layout.led for name in led.chain.functions if name in ends]
    for name in dict.fromkeys(first):
        if name in ends:
            here, there = ends.pop(name), ends.pop(_peer(ends, name))
            tunnel = f"{name}-{there.name}"
            yield _end(tunnel, here, there)
            yield _end(tunnel, there, here)


def _peer(ends: Mapping[str, Instance], name: str) -> str:
    return next(each for each, end in ends.items() if end.function.peer == name)


def _end(name: str, here: Instance, there: Instance) -> TunnelPlan:
    return TunnelPlan(
        name=name,
        kind=TunnelKind.STRONGSWAN,
        node=here.name,
        peer=there.name,
        local=here.ends[1].ip,
        remote=there.ends[1].ip,
        inside=(EVERYTHING,),
        outside=(EVERYTHING,),
        table=TUNNEL_TABLE,
    )


TUNNEL_TABLE = 900
"""Of a function: what goes into its tunnel."""


def _into_tunnel(added: Additions, end: Instance) -> None:
    """Send what comes to a tunnel's end through it, and nothing past it while there is none."""
    added.rules[end.name].append(RulePlan(incoming=OWN_PORT, table=TUNNEL_TABLE))
    none = RoutePlan(to=EVERYTHING, interface=OWN_PORT, table=TUNNEL_TABLE, kind="unreachable")
    added.routes[end.name].append(none)


def routes(
    function: Function, gateway: IPv4Address, interface: str, table: int | None = None
) -> Iterator[RoutePlan]:
    """Give the routes of a function: its own, and one for everything else."""
    for each in function.routes:
        kind = _KINDS.get(each.action)
        if kind is None:
            yield RoutePlan(to=each.to, via=gateway, interface=interface, table=table)
        else:
            yield RoutePlan(to=each.to, interface=interface, kind=kind, table=table)
    if not any(each.to == EVERYTHING for each in function.routes):
        yield RoutePlan(to=EVERYTHING, via=gateway, interface=interface, table=table)


def _filled(words: tuple[str, ...], addresses: Mapping[str, IPv4Address]) -> tuple[str, ...]:
    return tuple(_fill(word, addresses) for word in words)


def _fill(text: str, addresses: Mapping[str, IPv4Address]) -> str:
    return PLACE.sub(lambda found: str(addresses[found[1]]), text)
