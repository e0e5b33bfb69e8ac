"""Third-party VPN tunnels between two nodes."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from hawser.spec.model import Model, Name
from hawser.spec.port import Port
from hawser.spec.topology import Topology, components


class TunnelKind(StrEnum):
    """Implementation of a VPN tunnel."""

    STRONGSWAN = "strongswan"
    """IPsec by strongSwan: IKEv2, and ESP in UDP with AES-256-GCM in user space."""
    WIREGUARD_GO = "wireguard-go"
    """WireGuard in user space."""
    GRE = "gre"
    """Generic routing encapsulation (RFC 2784) in user space, without encryption."""


class Tunnel(Model):
    """A tunnel between the networks behind two nodes."""

    kind: TunnelKind
    """Its implementation."""
    ends: tuple[Port, Port]
    """The two ports of links between whose addresses it runs."""
    group: Name | None = None
    """Group of tunnels that join the same two sides; routers before them spread flows (ECMP)."""


def sides(
    topology: Topology, tunnel: Tunnel, tunnels: Iterable[Tunnel]
) -> tuple[set[str], set[str]]:
    """Give the nodes behind each end: those reachable without the links of its group's ends.

    If the ends are also connected in another way, both sets are the same. The ends exist.

    Args:
        topology: of the lab.
        tunnel: one tunnel.
        tunnels: all of the lab, among which are the others of its group.
    """
    group = [each for each in tunnels if each.group is not None and each.group == tunnel.group]
    cut = {end for each in (tunnel, *group) for end in each.ends}
    links = {name: link for name, link in topology.links.items() if not set(link.ends) & cut}
    parts = components(topology.model_copy(update={"links": links}))
    first, second = (next(part for part in parts if end.node in part) for end in tunnel.ends)
    return first, second
