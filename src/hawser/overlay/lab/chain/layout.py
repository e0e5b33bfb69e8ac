"""Where the functions of a lab are, and what they and the links to them are called.

Each instance of a function is a node of its own, joined by a cable to the node that it is at:

    node                     instance
    sf1  10.253.0.1/30 ----- 10.253.0.2/30  f0

One that knows nothing of what leads packets to it has a proxy between, another node:

    node             proxy                               instance
    sf1 ----------- f0  p0  10.253.0.1/30 ----- 10.253.0.2/30  f0
                        p1  10.253.4.1/30 ----- 10.253.4.2/30  f1
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Interface, IPv6Network
from itertools import islice

from hawser.overlay.lab.address import Addresses
from hawser.overlay.lab.resolved import Resolved
from hawser.spec.address import FUNCTIONS, STEERED
from hawser.spec.chain import Chain, Function, Steering, instances, proxy_name
from hawser.spec.course import Course, courses, mtu
from hawser.spec.port import Port
from hawser.spec.topology import Topology

OWN_PORT = "f0"
"""A function's only interface, and a proxy's to its node."""
SIDES = (("f0", "p0"), ("f1", "p1"))
"""A proxied function's interfaces, each with the proxy's to it. Packets of a chain come in by the
first and leave by the second, answers the other way."""
_CABLES = 1 << 15
"""Number of the first cable to a function among those that SRv6 packets pass."""
_SIDES = 256
"""Numbers between a cable to a function and the first, and from that to the second, behind its
proxy; there are fewer functions."""


@dataclass(frozen=True)
class Instance:
    """One instance of a function, and its cable."""

    name: str
    """Of its node in the lab."""
    number: int
    """From 1, of all instances."""
    function: Function

    @property
    def node(self) -> str:
        """The node that it is joined to."""
        return self.function.node

    @property
    def port(self) -> str:
        """The node's interface to it."""
        return f"sf{self.number}"

    @property
    def node_end(self) -> Port:
        """The node's end of its cable."""
        return Port(self.node, self.port)

    @property
    def ends(self) -> tuple[IPv4Interface, IPv4Interface]:
        """Addresses of the cable: the node's and its own."""
        return _pair(next(islice(FUNCTIONS.subnets(new_prefix=30), self.number - 1, None)))

    @property
    def ends6(self) -> tuple[IPv6Interface, IPv6Interface]:
        """The same for SRv6."""
        return cable6(_CABLES + self.number)

    @property
    def macs(self) -> tuple[str, str]:
        """Ethernet addresses of the cable: the node's and its own."""
        return _mac(_CABLES + self.number, 0), _mac(_CABLES + self.number, 1)

    @property
    def proxy(self) -> str | None:
        """The node that stands in for it."""
        return proxy_name(self.name) if self.function.proxy else None

    @property
    def sides(self) -> tuple[Side, Side]:
        """Its cables to its proxy."""
        return Side(self.number, 0), Side(self.number, 1)


@dataclass(frozen=True)
class Side:
    """A cable between a proxied function and its proxy: the proxy's end comes first."""

    number: int
    which: int

    @property
    def ends(self) -> tuple[IPv4Interface, IPv4Interface]:
        """Its addresses; those of the first are what the function is known by."""
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
class Led:
    """A chain with its courses, each with its number."""

    name: str
    chain: Chain
    courses: Mapping[int, Course]
    mtu: int


@dataclass(frozen=True)
class Layout:
    """All chains of a lab, what they lead through, and the names of everything."""

    topology: Topology
    addresses: Addresses
    queued: frozenset[Port]
    """Ports where queues, rates or delays hold."""
    instances: Mapping[str, tuple[Instance, ...]]
    """Of every function that a chain passes, by its name."""
    led: tuple[Led, ...]

    def every(self) -> Iterator[Instance]:
        """Give all instances."""
        for each in self.instances.values():
            yield from each

    def by(self, steering: Steering) -> Iterator[tuple[Led, int, Course]]:
        """Give the courses that are steered so, each with its chain and number."""
        for led in self.led:
            for number, course in led.courses.items() if led.chain.steering is steering else ():
                yield led, number, course

    def steering_of(self, function: str) -> Steering:
        """Give what leads packets to a function."""
        chains = (led.chain for led in self.led)
        return next(chain.steering for chain in chains if function in chain.functions)

    def departure(self, course: Course) -> str:
        """Give the interface by which a course's packets leave its classifier."""
        here = self.instances[course.functions[0]][0]
        return course.steered[0].interface if course.legs[0] else here.port

    def address(self, port: Port) -> IPv4Address:
        """Give the address of a link's port."""
        return self.addresses.inner[port].ip

    def of(self, node: str) -> list[IPv4Network]:
        """Give all addresses of a node on links."""
        ports = self.addresses.inner.items()
        return [IPv4Network(a.ip) for port, a in ports if port.node == node]

    def link_of(self, port: Port) -> tuple[int, int]:
        """Give the number of the link that a port is at, from 1, and which end of it is."""
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
    """Lay out a lab's chains; `queued` are ports where queues, rates or delays hold."""
    return Layout(
        topology=lab.topology,
        addresses=lab.addresses,
        queued=queued,
        instances=_instances(lab.chains, lab.functions),
        led=tuple(_led(lab)),
    )


def cable6(number: int) -> tuple[IPv6Interface, IPv6Interface]:
    """Give the IPv6 addresses of a cable."""
    network = IPv6Network((int(STEERED.network_address) + (number << 64), 64))
    return IPv6Interface((int(network[1]), 64)), IPv6Interface((int(network[2]), 64))


def _pair(network: IPv4Network) -> tuple[IPv4Interface, IPv4Interface]:
    first, second = (IPv4Interface((host, network.prefixlen)) for host in network.hosts())
    return first, second


def _mac(cable: int, end: int) -> str:
    """Give a locally administered address."""
    return f"02:5f:{cable >> 8:02x}:{cable & 0xFF:02x}:00:{end + 1:02x}"


def _instances(
    chains: Mapping[str, Chain], functions: Mapping[str, Function]
) -> dict[str, tuple[Instance, ...]]:
    """Give the instances of what chains pass; other functions are not there."""
    used = {name for chain in chains.values() for name in chain.functions}
    found: dict[str, tuple[Instance, ...]] = {}
    number = 0
    for name, function in functions.items():
        if name in used:
            names = enumerate(instances(name, function), number + 1)
            found[name] = tuple(Instance(each, place, function) for place, each in names)
            number += function.instances
    return found


def _led(lab: Resolved) -> Iterator[Led]:
    number = 0
    for name, chain in lab.chains.items():
        every = list(courses(lab.topology, lab.functions, chain))
        room = min(mtu(lab.topology, lab.tunnels, chain, course) for course in every)
        yield Led(name, chain, dict(enumerate(every, number + 1)), room)
        number += len(every)
