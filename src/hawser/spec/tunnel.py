"""Tunnels of other people's software between two nodes: what a software VPN gives."""

from __future__ import annotations

from enum import StrEnum

from hawser.spec.model import Model
from hawser.spec.port import Port
from hawser.spec.topology import Topology, components


class TunnelKind(StrEnum):
    """Who carries the packets."""

    STRONGSWAN = "strongswan"
    """IPsec: ESP in UDP with AES-256-GCM, IKEv2; the kernel's ESP is not used."""
    WIREGUARD_GO = "wireguard-go"
    """WireGuard in user space."""


class Tunnel(Model):
    """An encrypted tunnel that joins what lies behind one node with what lies behind another."""

    kind: TunnelKind
    """The software that carries its packets."""
    ends: tuple[Port, Port]
    """The two ports, of links, between whose addresses it runs."""


def sides(topology: Topology, tunnel: Tunnel) -> tuple[set[str], set[str]]:
    """Give the nodes behind each end: those reached without the links of the two ends.

    Both are the same set where the ends are joined otherwise too. The ends exist.
    """
    links = {
        name: link for name, link in topology.links.items() if not set(link.ends) & set(tunnel.ends)
    }
    parts = components(topology.model_copy(update={"links": links}))
    first, second = (next(part for part in parts if end.node in part) for end in tunnel.ends)
    return first, second
