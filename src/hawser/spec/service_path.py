"""The sfp of a chain over a topology: which nodes its packets pass, and with how much room.

    from -- classifier -- .. -- node of the first function -- .. -- node of the last -- .. -- to
                          leg 0                             legs 1, 2, ..        last leg

On the last leg packets are what they were when they came to the classifier.
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
"""Bytes in front of an IP packet on a path: its Ethernet header, and a header of MD type 1."""
NSH_TUNNEL_OVERHEAD = NSH_OVERHEAD + _VXLAN_GPE + _UDP + _IPV4
"""The same between forwarders, in VXLAN-GPE over UDP and IPv4."""

ESP_OVERHEAD = 100
"""Bytes left for what ESP in UDP puts around a packet: IP, UDP, ESP, IV, padding and ICV."""

_TUNNEL_MTU = {TunnelKind.STRONGSWAN: 1400, TunnelKind.WIREGUARD_GO: 1420}
"""Largest packet inside, where the outer one may have 1500 bytes."""


@dataclass(frozen=True)
class ServicePath:
    """A chain in one direction."""

    direction: Direction
    source: str
    target: str
    functions: tuple[str, ...]
    """In the order in which they are passed."""
    nodes: tuple[str, ...]
    """The node of each."""
    access: Hop
    """From the source to the classifier."""
    legs: tuple[tuple[Hop, ...], ...]
    """From the classifier to each function's node in turn, then to the target; empty between
    functions of one node."""
    sealed: tuple[bool, ...]
    """Of each function: whether packets come to it through a tunnel, from the one before."""

    @property
    def classifier(self) -> str:
        """The node that tells the chain's packets from others."""
        return self.access.there

    @property
    def last(self) -> str:
        """The node where packets leave the chain."""
        return self.nodes[-1]

    @property
    def steered(self) -> tuple[Hop, ...]:
        """Hops on which packets are led, in their order; the last leg is not."""
        return tuple(hop for leg in self.legs[:-1] for hop in leg)

    def arrivals(self) -> Iterator[tuple[str, str]]:
        """Give each node with the interface at which packets come to it from a link.

        In a tunnel between functions they are packets of another kind, which are not told.
        """
        open_legs = (leg for leg, s in zip(self.legs, self.sealed, strict=False) if not s)
        for hop in (self.access, *(hop for leg in open_legs for hop in leg), *self.legs[-1]):
            yield hop.there, hop.arrival


def service_paths(
    topology: Topology, functions: Mapping[str, Function], chain: Chain
) -> Iterator[ServicePath]:
    """Give a chain's sfp forward, and back where it has one.

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
    sealed = tuple(peer in names[:place] for place, peer in enumerate(peers))
    return ServicePath(direction, source, target, names, nodes, access, legs, sealed)


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
    """Give the largest IP packet that passes a chain's sfp whole."""
    extra = overhead(chain)
    rooms = link_mtus(topology, tunnels)
    plain = [rooms[hop.neighbour] for hop in (sfp.access, *sfp.legs[-1])]
    steered = [
        rooms[hop.neighbour] - (ESP_OVERHEAD if sealed else extra)
        for leg, sealed in zip(sfp.legs, sfp.sealed, strict=False)
        for hop in leg
    ]
    inside = [_TUNNEL_MTU[TunnelKind.STRONGSWAN]] if any(sfp.sealed) else []
    return min(*plain, *steered, *inside)


def link_mtus(topology: Topology, tunnels: Mapping[str, Tunnel]) -> dict[Port, int]:
    """Give the largest IP packet that each port's link takes, with a tunnel over it inside that."""
    found = {end: link.mtu for link in topology.links.values() for end in link.ends}
    for tunnel in tunnels.values():
        for end in tunnel.ends:
            found[end] = min(found[end], _TUNNEL_MTU[tunnel.kind])
    return found
