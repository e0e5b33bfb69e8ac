"""Which port's address stands for an end of a measurement."""

from __future__ import annotations

from hawser.spec.overlay import Overlay
from hawser.spec.port import Port
from hawser.spec.topology import Topology, node_ports


def address_port(topology: Topology, overlay: Overlay | None, end: str) -> Port:
    """Give the port whose address stands for an end: a node's LAN port, else its first."""
    if "." in end:
        return Port.parse(end)
    for branch in overlay.branches.values() if overlay else ():
        if branch.gateway == end:
            return branch.lan_port
    return node_ports(topology)[end][0]
