"""Third-party VPN tunnels between two nodes."""

from __future__ import annotations

from enum import StrEnum

from hawser.spec.model import Model
from hawser.spec.port import Port
from hawser.spec.topology import Topology, components


class TunnelKind(StrEnum):
    """Implementation of a VPN tunnel."""

    STRONGSWAN = "strongswan"
    """IPsec by strongSwan: IKEv2, and ESP in UDP with AES-256-GCM in user space."""
    WIREGUARD_GO = "wireguard-go"
    """WireGuard in user space."""


class Tunnel(Model):
    """An encrypted tunnel between the networks behind two nodes."""

    kind: TunnelKind
    """Its implementation."""
    ends: tuple[Port, Port]
    """The two ports of links between whose addresses it runs."""


def sides(topology: Topology, tunnel: Tunnel) -> tuple[set[str], set[str]]:
    """Give the nodes behind each end: those reachable without the links of the two ends.

    If the ends are also connected in another way, both sets are the same. The ends exist.
    """
    links = {
        name: link for name, link in topology.links.items() if not set(link.ends) & set(tunnel.ends)
    }
    parts = components(topology.model_copy(update={"links": links}))
    first, second = (next(part for part in parts if end.node in part) for end in tunnel.ends)
    return first, second
