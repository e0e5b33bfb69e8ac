"""Configuration of `hawserd function srv6-proxy` (schemas/srv6-proxy-config.schema.json)."""

from __future__ import annotations

from ipaddress import IPv6Address
from typing import Annotated

from hawser.overlay.config.base import (
    OMIT_EMPTY,
    OMIT_NONE,
    Configuration,
    Mac,
    Need,
    Part,
    Place,
    omit,
)
from hawser.spec.chain import Proxy as Behaviour


class Port(Part):
    """An interface."""

    name: str
    interface: str
    trusted: Annotated[bool, omit(value=False)] = False
    """Whether only nodes of the SR domain are behind it: packets from it may enter segments."""


class Way(Part):
    """Out of a port, to an Ethernet address."""

    port: str
    mac: Mac


class Encapsulation(Part):
    """What is put in front of what comes back from a function (End.AS)."""

    source: IPv6Address
    segments: tuple[IPv6Address, ...]
    segments_ipv6: Annotated[tuple[IPv6Address, ...], OMIT_EMPTY] = ()
    """The list for IPv6 packets."""
    hop_limit: Annotated[int, omit(64)] = 64


class Proxy(Part):
    """One segment, and the function behind it."""

    segment: IPv6Address
    behaviour: Behaviour
    function: Way
    """Where packets go without their header."""
    returns: str
    """The port at which they come back."""
    onward: Way
    """Where they then go."""
    encapsulation: Annotated[Encapsulation | None, OMIT_NONE] = None


class Srv6ProxyConfig(Configuration):
    """Proxies for one function."""

    control: Place
    """Unix socket of the control API."""
    ports: tuple[Port, ...]
    proxies: tuple[Proxy, ...]

    def needs(self) -> frozenset[Need]:
        """Give what a machine must have for it."""
        return frozenset({"hawserd", "xdp"})
