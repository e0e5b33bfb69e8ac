"""Plans of tunnels: what lies behind each end goes through, everything else goes as before."""

from __future__ import annotations

from collections.abc import Iterator, Set
from ipaddress import IPv4Network

from hawser.overlay.lab.address import Addresses
from hawser.overlay.lab.plan import TunnelPlan
from hawser.spec.topology import Topology
from hawser.spec.tunnel import sides
from hawser.spec.workflow import Scenario


def tunnels(scenario: Scenario, addresses: Addresses) -> Iterator[TunnelPlan]:
    """Give both ends of every tunnel, the one that opens it first."""
    for name, tunnel in scenario.tunnels.items():
        nodes = [end.partition(".")[0] for end in tunnel.ends]
        behind = [
            _networks(scenario.topology, addresses, s) for s in sides(scenario.topology, tunnel)
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
        if all(end.partition(".")[0] in side for end in link.ends)
    )
