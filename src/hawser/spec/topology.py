"""What is joined to what, and how well: nodes, links and an internet between WAN ports."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, model_validator

from hawser.spec.model import Model, Name
from hawser.spec.port import Port
from hawser.spec.units import Duration, Rate, Ratio, Size


class Distribution(StrEnum):
    """Shape of jitter; each has the standard deviation asked for."""

    NORMAL = "normal"
    UNIFORM = "uniform"
    PARETO = "pareto"
    """Never much earlier, now and then much later: a Pareto distribution of shape 3."""


class GilbertElliott(Model):
    """Loss in bursts: a chain of two states that may change before each packet."""

    to_bad: Ratio
    """Probability of going from the good to the bad state."""
    to_good: Ratio
    """Probability of going back; bursts last `1 / to_good` packets in the mean."""
    good: Ratio = Ratio(0)
    """Share lost in the good state."""
    bad: Ratio = Ratio(1)
    """Share lost in the bad state."""


class Impairment(Model):
    """What else a direction does to packets. A field left out means: none of it."""

    delay: Duration | None = None
    """Constant one-way delay."""
    jitter: Duration | None = None
    """Standard deviation of the one-way delay."""
    jitter_distribution: Distribution | None = None
    """Shape of the jitter; normal by default."""
    jitter_correlation: Ratio | None = None
    """Correlation of the jitter from one packet to the next."""
    jitter_reorders: bool | None = None
    """Whether packets may overtake one another. If not, they wait for one another."""
    loss: Ratio | None = None
    """Share of packets lost, each independently."""
    gilbert_elliott: GilbertElliott | None = None
    """Loss in bursts, instead of `loss`."""
    duplication: Ratio | None = None
    """Share of packets delivered twice."""
    reordering: Ratio | None = None
    """Share of packets held back by `reordering_delay`, so that others overtake them."""
    reordering_delay: Duration | None = None
    """How much longer these are under way."""
    trace: str | None = None
    """Variable rate instead of `rate`, in mahimahi's format; a workflow names a file beside it."""

    @property
    def impaired(self) -> bool:
        """Whether anything but a rate is asked for."""
        return any(getattr(self, name) is not None for name in Impairment.model_fields)


class Channel(Impairment):
    """One direction of a link, port or path. A field left out means: no limit, none of it."""

    rate: Rate | None = None
    """Highest rate, shaped in the kernel."""
    queue: Size | None = None
    """Bytes that may wait before a packet is dropped; needs a rate. Default: 50 frames of 1514."""


class Link(Channel):
    """A cable between two ports. The fields of the link hold in both directions."""

    ends: tuple[Port, Port]
    """The two ports. *Forward* is from the first to the second."""
    reverse: Channel | None = None
    """What differs from the second end to the first."""
    mtu: Annotated[int, Field(ge=576, le=65535)] = 1500
    """Largest IP packet, bytes."""


class PortType(StrEnum):
    """What a WAN port is connected to."""

    INTERNET = "internet"
    """The public internet."""
    LEASED = "leased"
    """A leased line: it reaches other leased ports only."""


class WanPort(Channel):
    """A port's access to the internet. *Forward* is towards the internet (upload)."""

    type: PortType = PortType.INTERNET
    """Where it leads. Type III traffic leaves by internet ports only."""
    reverse: Channel | None = None
    """What differs towards the port (download)."""


class WanPath(Channel):
    """What the internet gives between two WAN ports. *Forward* is from the first to the second."""

    ends: tuple[Port, Port]
    """The two ports, both of which the internet joins."""
    reverse: Channel | None = None
    """What differs from the second end to the first."""


class CrossTraffic(Model):
    """Traffic of others that crosses a bottleneck for as long as the lab stands: one of the two."""

    udp: Rate | None = None
    """A flow of constant rate, of full packets; it does not yield."""
    tcp: Annotated[int, Field(ge=1, le=128)] | None = None
    """So many TCP connections that always have something to send."""

    @model_validator(mode="after")
    def _one_kind(self) -> CrossTraffic:
        if (self.udp is None) == (self.tcp is None):
            said = "nothing" if self.udp is None else "udp and tcp"
            raise ValueError(f"found {said}, expected one of udp, tcp")
        return self


class BottleneckReverse(Model):
    """What differs in the other direction of a bottleneck."""

    rate: Rate | None = None
    """Its rate; as forward if left out."""
    queue: Size | None = None
    """Bytes that may wait; as forward if left out."""
    cross_traffic: CrossTraffic | None = None
    """Traffic of others; none if left out."""


class Bottleneck(Model):
    """A link inside the internet that the packets between some WAN ports pass."""

    between: Annotated[tuple[tuple[Port, Port], ...], Field(min_length=1)]
    """Pairs of WAN ports. *Forward* is from the first to the second."""
    rate: Rate
    """What it carries, of the described paths and of others together."""
    queue: Size | None = None
    """Bytes that may wait, whose ever they are. Default: 50 frames of 1514."""
    cross_traffic: CrossTraffic | None = None
    """Traffic of others, forward."""
    reverse: BottleneckReverse = BottleneckReverse()
    """What differs in the other direction."""


class Internet(Model):
    """A cloud that joins WAN ports: any port reaches any other, each pair with its own values."""

    ports: dict[Port, WanPort]
    """The ports joined, with the access rate of each."""
    path: Channel = Channel()
    """Values of every path that `paths` does not describe."""
    paths: dict[Name, WanPath] = {}
    """Values of one path, by a name that events and overrides can use."""
    bottlenecks: dict[Name, Bottleneck] = {}
    """Links that several paths and other people's traffic may share; a path passes one at most."""
    mtu: Annotated[int, Field(ge=576, le=9216)] = 1500
    """Largest IP packet, bytes."""


class Node(Model):
    """One machine."""

    sysctl: dict[str, str] = {}
    """Settings of this node's network namespace, such as `net.ipv4.tcp_congestion_control`."""
    cpu: Annotated[float, Field(ge=0.01, le=1024)] | None = None
    """Cores that this node's programs together may use, such as 0.5; no limit if left out.

    What the kernel forwards is no program's and is not limited.
    """
    region: str | None = None
    """Cloud region, such as `us-west-2` or `gcp:us-east1`.

    Links and paths between two regions have half their round-trip time as delay, unless they say
    otherwise.
    """


class Topology(Model):
    """Nodes and what joins them. A port exists because a link or the internet names it."""

    nodes: dict[Name, Node]
    """Machines, by name; a list of names will do."""
    links: dict[Name, Link] = {}
    """Cables, by name."""
    internet: Internet | None = None
    """What joins WAN ports."""


def backward(channel: Channel) -> Channel:
    """Give the other direction: as forward, but for what `reverse` gives."""
    given = channel.model_dump(include=set(Channel.model_fields))
    reverse = getattr(channel, "reverse", None)
    if reverse is not None:
        given |= reverse.model_dump(exclude_unset=True)
    return Channel.model_validate(given)


def node_ports(topology: Topology) -> dict[str, list[Port]]:
    """Ports of every node, those of links first, each kind in the order of the file."""
    ports: dict[str, list[Port]] = {node: [] for node in topology.nodes}
    ends = [end for link in topology.links.values() for end in link.ends]
    for end in (*ends, *(topology.internet.ports if topology.internet else ())):
        ports.setdefault(end.node, []).append(end)
    return ports


def components(topology: Topology) -> list[set[str]]:
    """Sets of nodes that links join, directly or through others. The internet joins none."""
    parts = [{node} for node in topology.nodes]
    for link in topology.links.values():
        nodes = {end.node for end in link.ends}
        joined = [part for part in parts if part & nodes]
        parts = [part for part in parts if not part & nodes] + [set().union(*joined, nodes)]
    return parts


def wan_ports(topology: Topology) -> dict[str, list[Port]]:
    """WAN ports of every node that has some, in the order of the file."""
    ports: dict[str, list[Port]] = {}
    for port in topology.internet.ports if topology.internet else ():
        ports.setdefault(port.node, []).append(port)
    return ports
