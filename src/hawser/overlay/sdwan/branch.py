"""Branches of an SD-WAN, with the addresses of their gateways.

A branch with two gateways is there twice: as `b1`, and as `b1/2` (`spec.pair`) with the second's
ports. Both have its number and its prefixes.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from hawser.overlay.config.steering import Function
from hawser.spec.model import Model
from hawser.spec.overlay import Service
from hawser.spec.topology import PortType


class WanPort(Model):
    """A gateway's port to the WAN."""

    interface: str
    address: IPv4Address | None = None
    """Its IPv4 address on the WAN. It has an address of at least one version."""
    second: IPv4Address | None = None
    """Second address, which accepts MPTCP connections; None: `address` does."""
    address6: IPv6Address | None = None
    """IPv6 address that tunnels use in the place of both."""
    next_hop: IPv4Address | None = None
    """Next-hop router of IPv4 packets that leave by this port; given with `address`."""
    next_hop6: IPv6Address | None = None
    """Next-hop router of IPv6 packets; given with `address6`."""
    type: PortType = PortType.INTERNET
    behind_nat: bool = False
    """Whether others do not reach its address."""
    limited: bool = False
    """Whether its rate is shaped, so that packets queue by priority."""

    @property
    def agent(self) -> IPv4Address | IPv6Address:
        """Address of tunnels."""
        address = self.address6 or self.address
        assert address is not None  # noqa: S101 (a port has one)
        return address

    @property
    def listen(self) -> IPv4Address | IPv6Address:
        """Address that accepts MPTCP connections."""
        return self.second if self.second and not self.address6 else self.agent


class Branch(Model):
    """A site behind a gateway with one or more WAN ports."""

    id: int
    """Its number in path labels."""
    gateway: str
    """The name of its gateway."""
    lan: str
    """The gateway's interface to the LAN."""
    source: IPv4Address
    """The gateway's address on the LAN."""
    prefixes: tuple[IPv4Network | IPv6Network, ...]
    """Prefixes behind the gateway: all that other branches reach here."""
    services: tuple[Service, ...] = ()
    """Services of the gateway itself that they reach."""
    wan_services: tuple[Service, ...] | None = None
    """Those that everybody reaches from the WAN; None: its WAN ports do not filter."""
    ports: dict[str, WanPort]
    """WAN ports by name, in order of use."""
    functions: dict[str, Function] = {}
    """Service functions at the gateway, by name."""
