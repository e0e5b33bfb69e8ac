"""Addresses of every port.

WAN ports have a /29 each of 198.18.0.0/15, in the order of the file: .1 is the internet's side, .2
the port. A node that both opens and accepts MPTCP connections accepts them on .3 (see `mptcp`). On
a branch's LAN the gateway has the first address, the host the second. Every other link has its own
prefix, or a /30 of 10.255.0.0/16. Where tunnels use IPv6, WAN ports have a /64 each of fd01::/48
besides, with the same hosts.

Behind a NAT the port has these hosts of a /29 of 100.64.0.0/16, where .1 is the NAT, and .2 of the
/29 of 198.18.0.0/15 is the NAT's outside.

Where links carry IPv6, and where SRv6 needs it, each has a /64 of fd00::/48 besides.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Interface, IPv6Network
from itertools import islice
from typing import Literal

from hawser.spec.address import LINKS, NATS, STEERED, WAN, WAN6
from hawser.spec.port import Port
from hawser.spec.topology import Link, Topology, node_ports

_WAN_PREFIX = 29


@dataclass(frozen=True)
class NatAccess:
    """The NAT of one WAN port."""

    node: str
    inside: IPv4Interface
    outside: IPv4Interface


@dataclass(frozen=True)
class WanAccess:
    """One WAN port's network."""

    internet: IPv4Interface
    interface: str
    """The internet node's interface to this port."""
    port: IPv4Interface
    listen: IPv4Interface
    """Address that accepts MPTCP connections: the port's own, or a second one."""
    ends6: tuple[IPv6Interface, IPv6Interface] | None = None
    """Addresses of the internet's side and of the port where tunnels use IPv6."""
    nat: NatAccess | None = None
    """The NAT that the port is behind."""

    @property
    def next_hop(self) -> IPv4Address:
        """The router of the port."""
        return (self.nat.inside if self.nat else self.internet).ip

    @property
    def addresses(self) -> tuple[IPv4Interface, ...]:
        """All IPv4 addresses of the port."""
        return (self.port,) if self.listen == self.port else (self.port, self.listen)

    @property
    def own(self) -> IPv4Network:
        """IPv4 source addresses of this port's packets: .2 and .3."""
        return IPv4Network((int(self.port.ip), 31))

    @property
    def source(self) -> IPv4Network:
        """Those addresses as the internet sees them."""
        return IPv4Network((int(self.nat.outside.ip), 31)) if self.nat else self.own

    @property
    def tunnelled(self) -> IPv4Network | IPv6Network:
        """Source addresses of the packets that are shaped and impaired: those of tunnels."""
        return self.source if self.ends6 is None else self.ends6[1].network


@dataclass(frozen=True)
class Addresses:
    """The address plan of one lab."""

    wan: Mapping[Port, WanAccess]
    inner: Mapping[Port, IPv4Interface]
    """Ports of links."""
    inner6: Mapping[Port, IPv6Interface]
    """The same for IPv6; none where links do not carry it."""

    def of(self, port: Port) -> tuple[IPv4Interface, ...]:
        """Give a port's IPv4 addresses."""
        return (self.inner[port],) if port in self.inner else self.wan[port].addresses

    def every(self, port: Port) -> tuple[IPv4Interface | IPv6Interface, ...]:
        """Give a port's addresses."""
        if port in self.wan and (ends := self.wan[port].ends6):
            return (*self.of(port), ends[1])
        also = (self.inner6[port],) if port in self.inner6 else ()
        return (*self.of(port), *also)


def addresses(
    topology: Topology,
    lans: Mapping[Port, IPv4Network],
    both: Collection[str],
    family: Literal[4, 6] = 4,
) -> Addresses:
    """Compute the address plan.

    Args:
        topology: nodes and links.
        lans: prefixes of the branches' LANs, by the gateways' ports to them.
        both: nodes that both open and accept MPTCP connections.
        family: version of IP of the tunnels' packets at ports that do not say it.
    """
    internet = topology.internet
    ports = internet.ports if internet else {}
    wan = {
        port: _access(
            port,
            index,
            second=port.node in both,
            family=each.family or family,
            nat=each.nat is not None,
        )
        for index, (port, each) in enumerate(ports.items())
    }
    inner: dict[Port, IPv4Interface] = {}
    plain = LINKS.subnets(new_prefix=30)
    for link in topology.links.values():
        inner |= _lan(lans, link) or _ends(link.ends, link.prefix or next(plain))
    return Addresses(wan, inner, dict(_inner6(topology)) if topology.ipv6 else {})


def cable6(number: int) -> tuple[IPv6Interface, IPv6Interface]:
    """Give the IPv6 addresses of a cable; links are numbered from 1."""
    network = IPv6Network((int(STEERED.network_address) + (number << 64), 64))
    return IPv6Interface((int(network[1]), 64)), IPv6Interface((int(network[2]), 64))


def _inner6(topology: Topology) -> Iterator[tuple[Port, IPv6Interface]]:
    for number, link in enumerate(topology.links.values(), 1):
        yield from zip(link.ends, cable6(number), strict=True)


def _access(name: Port, index: int, *, second: bool, family: Literal[4, 6], nat: bool) -> WanAccess:
    internet, port, listen = _hosts(WAN, index)
    translated = None
    if nat:
        outside = port
        inside, port, listen = _hosts(NATS, index)
        translated = NatAccess(f"nat:{name.node}:{name.name}", inside, outside)
    start6 = int(WAN6.network_address) + (index << 64)
    ends6 = IPv6Interface((start6 + 1, 64)), IPv6Interface((start6 + 2, 64))
    accepts = listen if second else port
    ends = ends6 if family == 6 else None
    return WanAccess(internet, f"wan{index}", port, accepts, ends, translated)


def _hosts(networks: IPv4Network, index: int) -> tuple[IPv4Interface, IPv4Interface, IPv4Interface]:
    """Give the first three hosts of an access link."""
    start = int(networks.network_address) + (index << (32 - _WAN_PREFIX))
    return (
        IPv4Interface((start + 1, _WAN_PREFIX)),
        IPv4Interface((start + 2, _WAN_PREFIX)),
        IPv4Interface((start + 3, _WAN_PREFIX)),
    )


def _lan(lans: Mapping[Port, IPv4Network], link: Link) -> dict[Port, IPv4Interface] | None:
    """Addresses of a branch's LAN, None for any other link."""
    for port, other in (link.ends, link.ends[::-1]):
        if port in lans:
            return _ends((port, other), lans[port])
    return None


def _ends(ends: tuple[Port, Port], network: IPv4Network) -> dict[Port, IPv4Interface]:
    hosts = (IPv4Interface((host, network.prefixlen)) for host in islice(network.hosts(), 2))
    return dict(zip(ends, hosts, strict=True))


def names(
    topology: Topology, lans: Collection[Port], addresses: Addresses
) -> dict[str, IPv4Address]:
    """Give the address of every port, and of every node that has one: its LAN's, else its first."""
    ports, lan = node_ports(topology), {port.node: port for port in lans}
    named: dict[str, Port] = {port: port for every in ports.values() for port in every}
    named |= {node: lan.get(node, every[0]) for node, every in ports.items() if every}
    return {name: addresses.of(port)[0].ip for name, port in named.items()}
