"""The SD-WAN over the topology: branches, their gateways, and how packets are carried between."""

from __future__ import annotations

from enum import StrEnum
from ipaddress import IPv4Network
from typing import Annotated

from pydantic import Field, StringConstraints

from hawser.spec.model import Model, Name, PortName
from hawser.spec.units import Size


class Transport(StrEnum):
    """How the multipath agent carries packets to another branch."""

    MPTCP = "mptcp"
    """IP over Multipath TCP: all member paths at once."""
    QUIC = "quic"
    """IP in QUIC datagrams, one connection a member path: all of them at once, encrypted."""
    IPIP = "ipip"
    """IP in IP (RFC 2003) on the first member path only."""
    NONE = "none"
    """No gateway runs: what the bare topology gives."""


class Encryption(StrEnum):
    """Protection of a transport."""

    TLS13 = "tls13"
    NONE = "none"


class Branch(Model):
    """A site: a LAN behind a gateway with one or more WAN ports."""

    id: Annotated[int, Field(ge=1, le=15)]
    """Number of the branch in path labels; unique."""
    gateway: Name
    """The node that is the branch's gateway (MMSG)."""
    wan: Annotated[tuple[PortName, ...], Field(min_length=1)]
    """The gateway's WAN ports, in the order in which they are used."""
    lan: PortName
    """The gateway's LAN port."""
    prefix: IPv4Network
    """Addresses of the branch's LAN. The gateway gets the first, its hosts the following ones."""


Route = Annotated[
    str,
    StringConstraints(
        pattern=r"^[a-z][a-z0-9-]*\.[a-z][a-z0-9-]*(>[a-z][a-z0-9-]*\.[a-z][a-z0-9-]*)+$"
    ),
]
"""A member path, written as the branch ports it passes: `b1.a>b2.a`."""


class PathGroup(Model):
    """Member paths that together carry one connection between two branches."""

    paths: Annotated[tuple[Route, ...], Field(min_length=1, max_length=16)]
    """Member paths, the one that is used first in front; all between the same two branches."""


class Overlay(Model):
    """One SD-WAN."""

    transport: Transport = Transport.MPTCP
    """How packets are carried between branches."""
    encryption: Encryption = Encryption.TLS13
    """Protection of the `mptcp` transport; `quic` always has it, `ipip` never."""
    branches: dict[Name, Branch]
    """The sites, by name."""
    path_groups: dict[Name, PathGroup] = {}
    """By default one group for each pair of branches, with every pair of their WAN ports."""
    queue: Size = Size(1_000_000)
    """Bytes a gateway holds for a peer while its connection is slow or down."""
