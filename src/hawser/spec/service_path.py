"""Service paths (RFC 7665): which nodes the packets of a chain pass, and their MTU.

    from -- classifier -- .. -- node of the first function -- .. -- node of the last -- .. -- to
                          leg 0                             legs 1, 2, ..        last leg

On the last leg packets are as they were when they reached the classifier.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from hawser.spec.chain import Chain, Encapsulation, Function, Steering
from hawser.spec.port import Port
from hawser.spec.topology import Topology
from hawser.spec.tunnel import Tunnel, TunnelKind
from hawser.spec.way import Hop, way

Direction = Literal["forward", "reverse"]

_ETHERNET, _IPV4, _UDP, _VXLAN_GPE, _NSH = 14, 20, 8, 8, 24
_IPV6, _SRH, _SEGMENT = 40, 8, 16
NSH_OVERHEAD = _ETHERNET + _NSH
"""Bytes in front of an IP packet with NSH: an Ethernet header, and an NSH of MD type 1."""
NSH_TUNNEL_OVERHEAD = NSH_OVERHEAD + _VXLAN_GPE + _UDP + _IPV4
"""The same between forwarders, in VXLAN-GPE over UDP and IPv4."""

ESP_OVERHEAD = 100
"""Bytes reserved for ESP in UDP around a packet: IP, UDP, ESP, IV, padding and ICV."""

_TUNNEL_MTU = {TunnelKind.STRONGSWAN: 1400, TunnelKind.WIREGUARD_GO: 1420}
"""Largest inner packet if the outer one may have 1500 bytes."""


@dataclass(frozen=True)
class ServicePath:
    """The path of a chain's packets in one direction."""

    direction: Direction
    source: str
    target: str
    functions: tuple[str, ...]
    """Functions in the order in which packets pass them."""
    nodes: tuple[str, ...]
    """The node of each."""
    access: Hop
    """From the source to the classifier."""
    legs: tuple[tuple[Hop, ...], ...]
    """Hops from the classifier to each function's node in turn, then to the target. A leg between
    functions at one node is empty."""
    tunnelled: tuple[bool, ...]
    """For each function, whether packets reach it through a tunnel from the one before."""

    @property
    def classifier(self) -> str:
        """The node that classifies the chain's packets."""
        return self.access.there

    @property
    def last(self) -> str:
        """The node where packets leave the chain."""
        return self.nodes[-1]

    @property
    def steered(self) -> tuple[Hop, ...]:
        """Hops on which packets are steered: all but those of the last leg."""
        return tuple(hop for leg in self.legs[:-1] for hop in leg)

    def arrivals(self) -> Iterator[tuple[str, str]]:
        """Give each node with the interface at which packets arrive from a link.

        Legs through a tunnel between functions are left out.
        """
        open_legs = (leg for leg, s in zip(self.legs, self.tunnelled, strict=False) if not s)
        for hop in (self.access, *(hop for leg in open_legs for hop in leg), *self.legs[-1]):
            yield hop.there, hop.arrival


def service_paths(
    topology: Topology, functions: Mapping[str, Function], chain: Chain
) -> Iterator[ServicePath]:
    """Give a chain's forward service path, and the reverse one if it is symmetric.

    Raises:
        KeyError: no links join its nodes.
    """
    yield _service_path(topology, functions, "forward", chain.source, chain.target, chain.functions)
    if chain.symmetric:
        back = chain.functions[::-1]
        yield _service_path(topology, functions, "reverse", chain.target, chain.source, back)


def _service_path(
    topology: Topology,
    functions: Mapping[str, Function],
    direction: Direction,
    source: str,
    target: str,
    names: tuple[str, ...],
) -> ServicePath:
    access = way(topology, source, target)[0]
    nodes = tuple(functions[name].node for name in names)
    stops = (access.there, *nodes, target)
    legs = tuple(way(topology, *ends) for ends in pairwise(stops))
    peers = (functions[name].peer for name in names)
    tunnelled = tuple(peer in names[:place] for place, peer in enumerate(peers))
    return ServicePath(direction, source, target, names, nodes, access, legs, tunnelled)


def overhead(chain: Chain) -> int:
    """Give the bytes in front of an IP packet between the nodes of a chain."""
    match chain.steering:
        case Steering.NSH:
            return NSH_TUNNEL_OVERHEAD
        case Steering.SRV6:
            reduced = chain.encapsulation is Encapsulation.REDUCED
            return _IPV6 + _SRH + _SEGMENT * (len(chain.functions) + (not reduced))
        case Steering.ROUTES:
            return 0


def mtu(topology: Topology, tunnels: Mapping[str, Tunnel], chain: Chain, sfp: ServicePath) -> int:
    """Give the largest IP packet that passes a service path without fragmentation."""
    extra = overhead(chain)
    mtus = link_mtus(topology, tunnels)
    plain = [mtus[hop.neighbour] for hop in (sfp.access, *sfp.legs[-1])]
    steered = [
        mtus[hop.neighbour] - (ESP_OVERHEAD if tunnelled else extra)
        for leg, tunnelled in zip(sfp.legs, sfp.tunnelled, strict=False)
        for hop in leg
    ]
    inside = [_TUNNEL_MTU[TunnelKind.STRONGSWAN]] if any(sfp.tunnelled) else []
    return min(*plain, *steered, *inside)


def link_mtus(topology: Topology, tunnels: Mapping[str, Tunnel]) -> dict[Port, int]:
    """Give the MTU of each port's link, or of the tunnel that runs over it."""
    found = {end: link.mtu for link in topology.links.values() for end in link.ends}
    for tunnel in tunnels.values():
        for end in tunnel.ends:
            found[end] = min(found[end], _TUNNEL_MTU[tunnel.kind])
    return found
