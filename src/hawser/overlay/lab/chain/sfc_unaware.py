"""SFC-unaware functions (RFC 7665 section 4.6): the kernel, and third-party programs.

Such a function receives packets without chain headers and returns them on the same cable. It has an
address that other nodes can reach, for its own connections and for replies to addresses that it
translated. Steered by SRv6 it has two cables to a proxy instead (`proxy`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address, IPv4Network

from hawser.overlay.lab.chain.additions import Additions
from hawser.overlay.lab.chain.layout import OWN_PORT, Instance, Layout
from hawser.overlay.lab.plan import ProgramPlan, RoutePlan, RulePlan, TunnelPlan
from hawser.overlay.lab.route import EVERYTHING
from hawser.spec.chain import PLACE, Function, FunctionKind, RouteAction
from hawser.spec.service_path import ServicePath
from hawser.spec.tunnel import TunnelKind
from hawser.spec.way import first_hops

_KINDS = {
    RouteAction.DROP: "blackhole",
    RouteAction.UNREACHABLE: "unreachable",
    RouteAction.PROHIBIT: "prohibit",
}


def join(layout: Layout, added: Additions) -> None:
    """Add routes to the addresses of all such functions, and routes of the functions."""
    for each in sfc_unaware(layout):
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
                    mtu=_mtu(layout, node),
                )
                added.routes[node].append(route)


def _reached(instance: Instance) -> IPv4Address:
    """Give the address at which an instance receives replies to packets that it sends."""
    return (instance.sides[1] if instance.proxy else instance).ends[1].ip


def _mtu(layout: Layout, node: str) -> int | None:
    """Give the MTU for replies of a node at the end of chains: they may pass a chain too."""
    mtus = [
        steered.mtu
        for steered in layout.steered
        if node in (steered.chain.source, steered.chain.target)
    ]
    return min(mtus, default=None)


def sfc_unaware(layout: Layout) -> Iterator[Instance]:
    """Give the instances of all SFC-unaware functions."""
    return (each for each in layout.every() if each.function.kind.sfc_unaware)


def answered(layout: Layout, sfp: ServicePath) -> Iterator[IPv4Address]:
    """Give the addresses that functions translate source addresses to, for matching replies.

    Functions with several instances are left out: load balancing could choose another instance than
    the one that has the flow. Their replies go directly to the instance's own address.
    """
    for name in sfp.functions if sfp.direction == "reverse" else ():
        instances = layout.instances[name]
        if instances[0].function.kind is FunctionKind.PROXY and len(instances) == 1:
            yield _reached(instances[0])


def programs(layout: Layout, addresses: Mapping[str, IPv4Address]) -> Iterator[ProgramPlan]:
    """Give the programs of functions, with names in their texts replaced by addresses."""
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
    """Give both ends of each tunnel between functions, in the order in which chains pass them."""
    ends = {each.name: each for each in sfc_unaware(layout) if each.function.peer is not None}
    first = [name for steered in layout.steered for name in steered.chain.functions if name in ends]
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
"""Routing table of a function for packets into its tunnel."""


def _into_tunnel(added: Additions, end: Instance) -> None:
    """Route a function's packets into its tunnel; while there is none they are unreachable."""
    added.rules[end.name].append(RulePlan(incoming=OWN_PORT, table=TUNNEL_TABLE))
    none = RoutePlan(to=EVERYTHING, interface=OWN_PORT, table=TUNNEL_TABLE, kind="unreachable")
    added.routes[end.name].append(none)


def routes(
    function: Function, gateway: IPv4Address, interface: str, table: int | None = None
) -> Iterator[RoutePlan]:
    """Give the routes of a function: those configured, and a default route."""
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
