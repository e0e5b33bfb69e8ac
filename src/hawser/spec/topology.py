"""The topology: nodes, links, and an internet between WAN ports."""

from __future__ import annotations

from enum import StrEnum
from ipaddress import IPv4Network
from typing import Annotated, Literal

from pydantic import Field, model_validator

from hawser.spec.model import Model, Name
from hawser.spec.port import Port
from hawser.spec.units import Duration, Rate, Ratio, Size


class Distribution(StrEnum):
    """Distribution of jitter; all have the configured standard deviation."""

    NORMAL = "normal"
    UNIFORM = "uniform"
    PARETO = "pareto"
    """Pareto distribution of shape 3: rarely much later, never much earlier."""


class GilbertElliott(Model):
    """Loss in bursts: a Markov chain of two states that may change before each packet."""

    to_bad: Ratio
    """Probability of a change from the good to the bad state."""
    to_good: Ratio
    """Probability of a change back; the mean length of bursts is `1 / to_good` packets."""
    good: Ratio = Ratio(0)
    """Share of packets lost in the good state."""
    bad: Ratio = Ratio(1)
    """Share of packets lost in the bad state."""


class Impairment(Model):
    """Impairments of one direction. A field that is left out means none."""

    delay: Duration | None = None
    """Constant one-way delay."""
    jitter: Duration | None = None
    """Standard deviation of the one-way delay."""
    jitter_distribution: Distribution | None = None
    """Distribution of the jitter. Default: normal."""
    jitter_correlation: Ratio | None = None
    """Correlation of the jitter from one packet to the next."""
    jitter_reorders: bool | None = None
    """Whether jitter may reorder packets; otherwise they wait for earlier ones."""
    loss: Ratio | None = None
    """Share of packets lost, each independently."""
    gilbert_elliott: GilbertElliott | None = None
    """Loss in bursts, instead of `loss`."""
    duplication: Ratio | None = None
    """Share of packets delivered twice."""
    reordering: Ratio | None = None
    """Share of packets delayed by `reordering_delay`, so that later ones overtake them."""
    reordering_delay: Duration | None = None
    """Additional delay of these packets."""
    trace: str | None = None
    """Variable rate instead of `rate`: a file in mahimahi's format, relative to the workflow."""

    @property
    def impaired(self) -> bool:
        """Whether there is any impairment besides a rate."""
        return any(getattr(self, name) is not None for name in Impairment.model_fields)


class Channel(Impairment):
    """One direction of a link, port or path. A field that is left out means no limit, or none."""

    rate: Rate | None = None
    """Maximum rate."""
    queue: Size | None = None
    """Bytes that can be queued; requires a rate. Default: 50 frames of 1514."""


class Link(Channel):
    """A cable between two ports. Its fields apply to both directions."""

    ends: tuple[Port, Port]
    """The two ports. *Forward* is from the first to the second."""
    reverse: Channel | None = None
    """Different values for the direction from the second port to the first."""
    mtu: Annotated[int, Field(ge=576, le=65535)] = 1500
    """Largest IP packet, bytes."""
    prefix: IPv4Network | None = None
    """Its network; the ends have the first two addresses. Default: a /30 reserved for links."""


class PortType(StrEnum):
    """What a WAN port is connected to."""

    INTERNET = "internet"
    """The public internet."""
    LEASED = "leased"
    """A leased line, which reaches only other leased ports."""


class Nat(StrEnum):
    """How a NAT maps ports (RFC 4787 section 4.1). From outside, only answers pass."""

    ENDPOINT_INDEPENDENT = "endpoint-independent"
    """One public port for each address and port behind it, the same one if it is free: the usual
    home router."""
    ADDRESS_AND_PORT_DEPENDENT = "address-and-port-dependent"
    """A random public port for each destination: many a mobile network."""


class WanPort(Channel):
    """The internet access of a port. *Forward* is towards the internet (upload)."""

    type: PortType = PortType.INTERNET
    """What it is connected to. Type III traffic leaves only by internet ports."""
    nat: Nat | None = None
    """NAT between the port, which then has a private address, and the internet. Default: none."""
    reverse: Channel | None = None
    """Different values for the direction towards the port (download)."""
    mtu: Annotated[int, Field(ge=576, le=9216)] | None = None
    """Largest IP packet of this access, bytes; that of the internet if left out."""
    family: Literal[4, 6] | None = None
    """Version of IP of the tunnels' packets here; that of the overlay if left out. Tunnels join
    only ports of the same version."""


class WanPath(Channel):
    """The path between two WAN ports. *Forward* is from the first to the second."""

    ends: tuple[Port, Port]
    """The two ports, both with internet access."""
    reverse: Channel | None = None
    """Different values for the direction from the second port to the first."""


class CrossTraffic(Model):
    """Cross traffic through a bottleneck while the lab exists: `udp` or `tcp`."""

    udp: Rate | None = None
    """A UDP flow of constant rate with full packets, which does not react to congestion."""
    tcp: Annotated[int, Field(ge=1, le=128)] | None = None
    """Number of TCP connections that always have data to send."""

    @model_validator(mode="after")
    def _one_kind(self) -> CrossTraffic:
        if (self.udp is None) == (self.tcp is None):
            said = "nothing" if self.udp is None else "udp and tcp"
            raise ValueError(f"found {said}, expected one of udp, tcp")
        return self


class BottleneckReverse(Model):
    """Different values for the reverse direction of a bottleneck."""

    rate: Rate | None = None
    """Its rate. Default: as forward."""
    queue: Size | None = None
    """Bytes that can be queued. Default: as forward."""
    cross_traffic: CrossTraffic | None = None
    """Cross traffic in this direction. Default: none."""


class Bottleneck(Model):
    """A link inside the internet, shared by the paths between some WAN ports."""

    between: Annotated[tuple[tuple[Port, Port], ...], Field(min_length=1)]
    """Pairs of WAN ports. *Forward* is from the first to the second."""
    rate: Rate
    """Its rate, for paths and cross traffic together."""
    queue: Size | None = None
    """Bytes of all traffic that can be queued. Default: 50 frames of 1514."""
    cross_traffic: CrossTraffic | None = None
    """Cross traffic in forward direction. Default: none."""
    reverse: BottleneckReverse = BottleneckReverse()
    """Different values for the reverse direction."""


class Internet(Model):
    """A cloud between WAN ports: every port reaches every other, each pair over its own path."""

    ports: dict[Port, WanPort]
    """The WAN ports, with the access rate of each."""
    path: Channel = Channel()
    """Values of all paths that are not in `paths`."""
    paths: dict[Name, WanPath] = {}
    """Values of single paths, by a name for events and overrides."""
    bottlenecks: dict[Name, Bottleneck] = {}
    """Links shared by several paths and cross traffic; a path passes at most one."""
    mtu: Annotated[int, Field(ge=576, le=9216)] = 1500
    """Largest IP packet, bytes."""

    def mtu_of(self, port: Port) -> int:
        """Give the largest IP packet of a port's access."""
        return self.ports[port].mtu or self.mtu


class Node(Model):
    """One machine."""

    sysctl: dict[str, str] = {}
    """Kernel settings of this node's network namespace, such as `net.ipv4.tcp_congestion_control`.
    """
    cpu: Annotated[float, Field(ge=0.01, le=1024)] | None = None
    """CPU cores that this node's programs together may use, such as 0.5. Default: no limit.

    Forwarding in the kernel belongs to no program and is not limited.
    """
    region: str | None = None
    """Cloud region, such as `us-west-2` or `gcp:us-east1`.

    Links and paths between two regions have half their round-trip time as delay by default.
    """
    ecmp: bool = False
    """Whether packets are spread by flow over all equally short ways of links (ECMP).

    A flow is told by addresses and ports. Without it all packets take the first of these ways.
    """


class Topology(Model):
    """Nodes and the links between them. A port exists if a link or the internet names it."""

    nodes: dict[Name, Node]
    """Machines by name, or a list of names."""
    links: dict[Name, Link] = {}
    """Cables, by name."""
    internet: Internet | None = None
    """The internet between WAN ports."""
    ipv6: bool = False
    """Whether links carry IPv6 too: their ports have IPv6 addresses, and nodes route it."""


def backward(channel: Channel) -> Channel:
    """Give the reverse direction: the forward values, overridden by `reverse`."""
    given = channel.model_dump(include=set(Channel.model_fields))
    reverse = getattr(channel, "reverse", None)
    if reverse is not None:
        given |= reverse.model_dump(exclude_unset=True)
    return Channel.model_validate(given)


def node_ports(topology: Topology) -> dict[str, list[Port]]:
    """Ports of every node: those of links, then WAN ports, in the order of the file."""
    ports: dict[str, list[Port]] = {node: [] for node in topology.nodes}
    ends = [end for link in topology.links.values() for end in link.ends]
    for end in (*ends, *(topology.internet.ports if topology.internet else ())):
        ports.setdefault(end.node, []).append(end)
    return ports


def components(topology: Topology) -> list[set[str]]:
    """Connected components of the nodes over links, without the internet."""
    parts = [{node} for node in topology.nodes]
    for link in topology.links.values():
        nodes = {end.node for end in link.ends}
        joined = [part for part in parts if part & nodes]
        parts = [part for part in parts if not part & nodes] + [set().union(*joined, nodes)]
    return parts


def wan_ports(topology: Topology) -> dict[str, list[Port]]:
    """WAN ports of every node that has any, in the order of the file."""
    ports: dict[str, list[Port]] = {}
    for port in topology.internet.ports if topology.internet else ():
        ports.setdefault(port.node, []).append(port)
    return ports
