"""Nodes, links and addresses of the functions of a lab.

Each instance of a function is a node of its own, connected by a cable to the node it is placed at:

    node                     instance
    sf1  10.253.0.1/30 ----- 10.253.0.2/30  f0

An SFC-unaware function steered by SRv6 has a proxy in between, which is another node:

    node             proxy                               instance
    sf1 ----------- f0  p0  10.253.0.1/30 ----- 10.253.0.2/30  f0
                        p1  10.253.4.1/30 ----- 10.253.4.2/30  f1
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Interface
from itertools import islice

from hawser.overlay.lab.address import Addresses, cable6
from hawser.overlay.lab.resolved import Resolved
from hawser.spec.address import FUNCTIONS
from hawser.spec.chain import Chain, Function, Steering, instances, proxy_name
from hawser.spec.port import Port
from hawser.spec.service_path import ServicePath, mtu, service_paths
from hawser.spec.topology import Topology

OWN_PORT = "f0"
"""A function's only interface, and a proxy's to its node."""
SIDES = (("f0", "p0"), ("f1", "p1"))
"""Interfaces between a function and its proxy, the function's first. Packets of a chain enter by
the first pair and leave by the second; those of the reverse direction pass them the other way."""
_CABLES = 1 << 15
"""Number of the first cable to a function among the cables that SRv6 packets pass."""
_SIDES = 256
"""Distance of the numbers of a function's cable and of the two cables behind its proxy. There are
fewer functions than this."""


@dataclass(frozen=True)
class Instance:
    """One instance of a function, with its cable."""

    name: str
    """Name of its node in the lab."""
    number: int
    """Counted from 1 over all instances."""
    function: Function

    @property
    def node(self) -> str:
        """The node that it is connected to."""
        return self.function.node

    @property
    def port(self) -> str:
        """The node's interface to this instance."""
        return f"sf{self.number}"

    @property
    def node_end(self) -> Port:
        """The node's end of its cable."""
        return Port(self.node, self.port)

    @property
    def ends(self) -> tuple[IPv4Interface, IPv4Interface]:
        """Addresses of the cable: the node's and the instance's."""
        return _pair(next(islice(FUNCTIONS.subnets(new_prefix=30), self.number - 1, None)))

    @property
    def ends6(self) -> tuple[IPv6Interface, IPv6Interface]:
        """The same for SRv6."""
        return cable6(_CABLES + self.number)

    @property
    def macs(self) -> tuple[str, str]:
        """Ethernet addresses of the cable: the node's and the instance's."""
        return _mac(_CABLES + self.number, 0), _mac(_CABLES + self.number, 1)

    @property
    def proxy(self) -> str | None:
        """The node of its proxy."""
        return proxy_name(self.name) if self.function.proxy else None

    @property
    def sides(self) -> tuple[Side, Side]:
        """Its cables to its proxy."""
        return Side(self.number, 0), Side(self.number, 1)


@dataclass(frozen=True)
class Side:
    """A cable between a proxy and its function; the proxy's end comes first."""

    number: int
    which: int

    @property
    def ends(self) -> tuple[IPv4Interface, IPv4Interface]:
        """Its IPv4 addresses. Others reach the function at its address on the first cable."""
        place = self.number - 1 + _SIDES * self.which
        return _pair(next(islice(FUNCTIONS.subnets(new_prefix=30), place, None)))

    @property
    def ends6(self) -> tuple[IPv6Interface, IPv6Interface]:
        """The same for IPv6."""
        return cable6(self._cable)

    @property
    def macs(self) -> tuple[str, str]:
        """Ethernet addresses."""
        return _mac(self._cable, 0), _mac(self._cable, 1)

    @property
    def _cable(self) -> int:
        return _CABLES + self.number + _SIDES * (1 + self.which)


@dataclass(frozen=True)
class SteeredChain:
    """A chain with its service paths by number."""

    name: str
    chain: Chain
    service_paths: Mapping[int, ServicePath]
    mtu: int


@dataclass(frozen=True)
class Layout:
    """All chains of a lab with their functions, addresses and names."""

    topology: Topology
    addresses: Addresses
    queued: frozenset[Port]
    """Ports with a queue, rate or delay."""
    instances: Mapping[str, tuple[Instance, ...]]
    """Instances of every function of a chain, by the function's name."""
    steered: tuple[SteeredChain, ...]

    def every(self) -> Iterator[Instance]:
        """Give all instances."""
        for each in self.instances.values():
            yield from each

    def by(self, steering: Steering) -> Iterator[tuple[SteeredChain, int, ServicePath]]:
        """Give the service paths with this kind of steering, each with its chain and number."""
        for steered in self.steered:
            for number, sfp in (
                steered.service_paths.items() if steered.chain.steering is steering else ()
            ):
                yield steered, number, sfp

    def steering_of(self, function: str) -> Steering:
        """Give the kind of steering of a function's chains."""
        chains = (steered.chain for steered in self.steered)
        return next(chain.steering for chain in chains if function in chain.functions)

    def departure(self, sfp: ServicePath) -> str:
        """Give the interface by which a service path's packets leave its classifier."""
        here = self.instances[sfp.functions[0]][0]
        return sfp.steered[0].interface if sfp.legs[0] else here.port

    def address(self, port: Port) -> IPv4Address:
        """Give the address of a link's port."""
        return self.addresses.inner[port].ip

    def of(self, node: str) -> list[IPv4Network]:
        """Give all addresses of a node on links."""
        ports = self.addresses.inner.items()
        return [IPv4Network(a.ip) for port, a in ports if port.node == node]

    def link_of(self, port: Port) -> tuple[int, int]:
        """Give the number of a port's link, from 1, and the port's end of it (0 or 1)."""
        for number, link in enumerate(self.topology.links.values(), 1):
            if port in link.ends:
                return number, link.ends.index(port)
        raise KeyError(port)

    def mac(self, port: Port) -> str:
        """Give the Ethernet address of a link's port."""
        return _mac(*self.link_of(port))

    def address6(self, port: Port) -> IPv6Interface:
        """Give the IPv6 address of a link's port."""
        number, end = self.link_of(port)
        return cable6(number)[end]


def layout_of(lab: Resolved, queued: frozenset[Port]) -> Layout:
    """Lay out a lab's chains; `queued` are the ports with a queue, rate or delay."""
    return Layout(
        topology=lab.topology,
        addresses=lab.addresses,
        queued=queued,
        instances=_instances(lab.chains, lab.functions),
        steered=tuple(_steered(lab)),
    )


def _pair(network: IPv4Network) -> tuple[IPv4Interface, IPv4Interface]:
    first, second = (IPv4Interface((host, network.prefixlen)) for host in network.hosts())
    return first, second


def _mac(cable: int, end: int) -> str:
    """Give a locally administered address."""
    return f"02:5f:{cable >> 8:02x}:{cable & 0xFF:02x}:00:{end + 1:02x}"


def _instances(
    chains: Mapping[str, Chain], functions: Mapping[str, Function]
) -> dict[str, tuple[Instance, ...]]:
    """Give the instances of all functions that are in a chain."""
    used = {name for chain in chains.values() for name in chain.functions}
    found: dict[str, tuple[Instance, ...]] = {}
    number = 0
    for name, function in functions.items():
        if name in used:
            names = enumerate(instances(name, function), number + 1)
            found[name] = tuple(Instance(each, place, function) for place, each in names)
            number += function.instances
    return found


def _steered(lab: Resolved) -> Iterator[SteeredChain]:
    number = 0
    for name, chain in lab.chains.items():
        every = list(service_paths(lab.topology, lab.functions, chain))
        room = min(mtu(lab.topology, lab.tunnels, chain, sfp) for sfp in every)
        yield SteeredChain(name, chain, dict(enumerate(every, number + 1)), room)
        number += len(every)
