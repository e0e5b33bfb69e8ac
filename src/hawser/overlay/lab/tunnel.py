"""Plans of tunnels. Traffic between the networks behind both ends uses them, no other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from ipaddress import IPv4Network

from hawser.overlay.lab.address import Addresses
from hawser.overlay.lab.plan import TunnelPlan
from hawser.spec.topology import Topology
from hawser.spec.tunnel import Tunnel, sides


def tunnels(
    topology: Topology, described: Mapping[str, Tunnel], addresses: Addresses
) -> Iterator[TunnelPlan]:
    """Give both ends of every tunnel, the one that opens it first."""
    for name, tunnel in described.items():
        nodes = [end.node for end in tunnel.ends]
        behind = [
            _networks(topology, addresses, side)
            for side in sides(topology, tunnel, described.values())
        ]
        outer = [addresses.inner[end].ip for end in tunnel.ends]
        for here, there in ((0, 1), (1, 0)):
            yield TunnelPlan(
                name=name,
                kind=tunnel.kind,
                node=nodes[here],
                peer=nodes[there],
                local=outer[here],
                remote=outer[there],
                inside=behind[here],
                outside=behind[there],
            )


def _networks(topology: Topology, addresses: Addresses, side: Set[str]) -> tuple[IPv4Network, ...]:
    """Give the networks of the links within a side."""
    return tuple(
        addresses.inner[link.ends[0]].network
        for link in topology.links.values()
        if all(end.node in side for end in link.ends)
    )
