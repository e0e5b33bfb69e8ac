"""Static routes: the shortest way over links, the first WAN port for everything else.

Packets from a WAN address leave by its own port, so that a path is the same in both directions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from ipaddress import IPv4Interface, IPv4Network, IPv6Interface, IPv6Network
from typing import Literal

from hawser.overlay.lab.address import Addresses, WanAccess
from hawser.overlay.lab.plan import RoutePlan, RulePlan
from hawser.spec.port import Port
from hawser.spec.prefixes import Network
from hawser.spec.topology import Topology, wan_ports
from hawser.spec.way import Hop, equal_hops, first_hops

EVERYTHING = IPv4Network("0.0.0.0/0")
EVERYTHING6 = IPv6Network("::/0")
FIRST_TABLE = 101
"""Routing table of a node's first WAN port; the next ones follow."""


def routes(topology: Topology, addresses: Addresses) -> Mapping[str, tuple[RoutePlan, ...]]:
    """Give the routes of every node."""
    wan = wan_ports(topology)
    return {node: tuple(_node(topology, addresses, wan, node)) for node in topology.nodes}


def rules(topology: Topology, addresses: Addresses) -> Mapping[str, tuple[RulePlan, ...]]:
    """Give the rules that send packets from a WAN address out of its port."""
    return {
        node: tuple(
            rule
            for index, port in enumerate(ports)
            for rule in _by_source(addresses.wan[port], FIRST_TABLE + index)
        )
        for node, ports in wan_ports(topology).items()
    }


def _by_source(access: WanAccess, table: int) -> Iterator[RulePlan]:
    yield RulePlan(source=access.own, table=table)
    if access.ends6 is not None:
        yield RulePlan(source=access.ends6[1].network, family=6, table=table)


def _node(
    topology: Topology, addresses: Addresses, wan: Mapping[str, list[Port]], node: str
) -> Iterator[RoutePlan]:
    hops = first_hops(topology, node)
    default = _default(addresses, wan, hops, node)
    if default is not None:
        yield default
    for route in _over_links(topology, addresses, hops, node):
        if default is None or route.via != default.via:
            yield route
    yield from _over_links(topology, addresses, hops, node, family=6)
    for index, port in enumerate(wan.get(node, ())):
        yield _out(addresses, port, FIRST_TABLE + index)
        if ends := addresses.wan[port].ends6:
            via, table = ends[0].ip, FIRST_TABLE + index
            yield RoutePlan(to=EVERYTHING6, via=via, interface=port.name, table=table)


def _default(
    addresses: Addresses, wan: Mapping[str, list[Port]], hops: Mapping[str, Hop], node: str
) -> RoutePlan | None:
    """Route to the internet: by the node's own first WAN port, else by the nearest node's."""
    if node in wan:
        return _out(addresses, wan[node][0], None)
    nearest = next((hop for other, hop in hops.items() if other in wan), None)
    return None if nearest is None else _via(addresses, EVERYTHING, nearest)


def _out(addresses: Addresses, port: Port, table: int | None) -> RoutePlan:
    access = addresses.wan[port]
    return RoutePlan(
        to=EVERYTHING,
        via=access.next_hop,
        interface=port.name,
        source=access.port.ip,
        table=table,
    )


def _over_links(
    topology: Topology,
    addresses: Addresses,
    hops: Mapping[str, Hop],
    node: str,
    family: Literal[4, 6] = 4,
) -> Iterator[RoutePlan]:
    """Route to every reachable network of a link that is not the node's own."""
    networks = _networks(topology, addresses.inner if family == 4 else addresses.inner6)
    own = {network for network, ends in networks if node in ends}
    if topology.nodes[node].ecmp:
        yield from _spread(
            topology, addresses, [each for each in networks if each[0] not in own], node
        )
        return
    for network, ends in networks:
        nearest = next((hop for other, hop in hops.items() if other in ends), None)
        if network not in own and nearest is not None:
            yield _via(addresses, network, nearest)


def _spread(
    topology: Topology,
    addresses: Addresses,
    networks: Iterable[tuple[Network, set[str]]],
    node: str,
) -> Iterator[RoutePlan]:
    """Route to networks by all equally short ways."""
    reach = equal_hops(topology, node)
    for network, ends in networks:
        near = [reach[end] for end in ends if end in reach]
        if not near:
            continue
        least = min(distance for distance, _ in near)
        hops = dict.fromkeys(hop for distance, some in near if distance == least for hop in some)
        first, *others = (_via(addresses, network, hop) for hop in hops)
        further = tuple((each.via, each.interface) for each in others if each.via is not None)
        yield RoutePlan(to=network, via=first.via, interface=first.interface, others=further)


def _via(addresses: Addresses, to: Network, hop: Hop) -> RoutePlan:
    ports = addresses.inner if to.version == 4 else addresses.inner6
    return RoutePlan(to=to, via=ports[hop.neighbour].ip, interface=hop.interface)


def _networks(
    topology: Topology, ports: Mapping[Port, IPv4Interface] | Mapping[Port, IPv6Interface]
) -> list[tuple[Network, set[str]]]:
    """Give the network of every link that has one, and the nodes on it."""
    return [
        (ports[link.ends[0]].network, {end.node for end in link.ends})
        for link in topology.links.values()
        if link.ends[0] in ports
    ]
