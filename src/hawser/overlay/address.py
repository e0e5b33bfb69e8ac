"""Addresses of every port.

WAN ports have a /30 each of 198.18.0.0/15, in the order of the file: the internet's side first, the port second. On a branch's LAN the gateway
has the first address, the host the second. Every other link has a /30 of 10.255.0.0/16.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv4Network
from itertools import islice

from hawser.spec.address import LINKS, WAN
from hawser.spec.overlay import Branch
from hawser.spec.topology import Link
from hawser.spec.workflow import Scenario


@dataclass(frozen=True)
class WanAccess:
    """One WAN port's /30."""

    port: IPv4Interface
    internet: IPv4Interface
    interface: str
    """The internet node's interface to this port."""


@dataclass(frozen=True)
class Addresses:
    """The address plan of one lab; ports are written `node.port`."""

    wan: Mapping[str, WanAccess]
    inner: Mapping[str, IPv4Interface]
    """Ports of links."""

    def of(self, port: str) -> IPv4Interface:
        """Give a port's address."""
        return self.inner[port] if port in self.inner else self.wan[port].port


def addresses(scenario: Scenario) -> Addresses:
    """Compute the address plan."""
    internet = scenario.topology.internet
    wan = {port: _access(index) for index, port in enumerate(internet.ports if internet else ())}
    inner: dict[str, IPv4Interface] = {}
    plain = LINKS.subnets(new_prefix=30)
    for link in scenario.topology.links.values():
        inner |= _lan(scenario, link) or _ends(link.ends, next(plain))
    return Addresses(wan, inner)


def branch_of(scenario: Scenario, port: str) -> Branch | None:
    """Give the branch that has this port as its LAN port."""
    branches = scenario.overlay.branches.values() if scenario.overlay else ()
    return next((b for b in branches if f"{b.gateway}.{b.lan}" == port), None)


def _access(index: int) -> WanAccess:
    network = IPv4Network((int(WAN.network_address) + 4 * index, 30))
    internet, port = _hosts(network)
    return WanAccess(port, internet, f"wan{index}")


def _lan(scenario: Scenario, link: Link) -> dict[str, IPv4Interface] | None:
    """Addresses of a branch's LAN, None for any other link."""
    for port, other in (link.ends, link.ends[::-1]):
        branch = branch_of(scenario, port)
        if branch is not None:
            return _ends((port, other), branch.prefix)
    return None


def _ends(ends: tuple[str, str], network: IPv4Network) -> dict[str, IPv4Interface]:
    return dict(zip(ends, _hosts(network), strict=True))


def _hosts(network: IPv4Network) -> tuple[IPv4Interface, IPv4Interface]:
    first, second = islice(network.hosts(), 2)
    return IPv4Interface((first, network.prefixlen)), IPv4Interface((second, network.prefixlen))
