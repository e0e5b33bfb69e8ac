"""The SD-WAN over the topology: branches, gateways, and how packets are carried between them."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from ipaddress import IPv4Network
from itertools import combinations
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, StringConstraints

from hawser.spec.access import may_talk
from hawser.spec.match import Match
from hawser.spec.model import Model, Name, PortName
from hawser.spec.port import Port
from hawser.spec.units import Size

MAX_BRANCHES = 1920
"""Branches of one SD-WAN, with `label_bits: 5`."""

MAX_GROUPS = 64
"""Path groups between two branches, with `label_bits: 6`."""

MAX_PATHS = 16
"""Member paths of one group, limited by narrow path labels and by the `quic` transport."""

NARROW = 16
"""Branches, and groups between two of them, with the `mptcp` transport: a narrow path label has 4
bits for each."""


class LabelSpace(NamedTuple):
    """How many branches and path groups the path labels of an SD-WAN tell apart."""

    branches: int
    groups: int
    """Between two branches."""
    branch_bits: int
    group_bits: int
    cause: str
    """What in the overlay decides it."""

    @property
    def of_pairs(self) -> int:
        """Number from which on groups join second gateways: two for each of three combinations."""
        return self.groups - 6


class Transport(StrEnum):
    """How the multipath agent carries packets to another branch."""

    MPTCP = "mptcp"
    """IP over Multipath TCP: all member paths at once."""
    QUIC = "quic"
    """IP in QUIC datagrams, encrypted, with one connection for each member path: all at once."""
    IPIP = "ipip"
    """IP in IP (RFC 2003) on the first member path only."""
    NONE = "none"
    """No gateways: traffic over the topology alone."""


class Encryption(StrEnum):
    """Encryption of a transport."""

    TLS13 = "tls13"
    NONE = "none"


class Congestion(StrEnum):
    """Congestion control of a path of the `quic` transport."""

    DELAY = "delay"
    """By delay: keeps a short queue on each path (after FAST TCP)."""
    CUBIC = "cubic"
    """CUBIC (RFC 9438): fills queues, and reduces its rate on loss."""
    BBR = "bbr"
    """BBR: by the delivery rate and the minimum round-trip time."""


class Recovery(StrEnum):
    """Loss recovery of the `quic` transport."""

    RESEND = "resend"
    """Retransmits lost TCP packets, on the path on which they arrive first."""
    NONE = "none"
    """Retransmits nothing."""


class Oversize(StrEnum):
    """What the `quic` transport does with packets that exceed the path MTU."""

    ANSWER = "answer"
    """Drops them and sends an ICMP error with the MTU to the sender."""
    FRAGMENT = "fragment"
    """Carries them in fragments, for hosts that do not receive ICMP errors."""


class SwitchKind(StrEnum):
    """The switch that forwards packets along their member paths by rewriting addresses."""

    BPF = "bpf"
    """TC programs at the WAN ports."""
    OPENFLOW = "openflow"
    """Open vSwitch, controlled over OpenFlow 1.3."""
    NONE = "none"
    """No switch: member paths are pairs of WAN ports, one WAN hop apart."""


class Placement(StrEnum):
    """How a gateway assigns inner flows to the path groups of a branch."""

    ROUND_ROBIN = "round_robin"
    """In turn."""
    FLOW_HASH = "flow_hash"
    """By a hash of their addresses and ports."""
    LEAST_LOADED = "least_loaded"
    """To the group with the shortest queue."""
    THROUGHPUT = "throughput"
    """To the group with the highest average throughput for each flow."""


class Paths(StrEnum):
    """Who chooses the member paths of path groups."""

    MANUAL = "manual"
    """`path_groups`; other pairs of branches use all pairs of their WAN ports."""
    AUTOMATIC = "automatic"
    """`path_groups` where there are any, for other pairs a linear program: from what is measured
    with a controller, otherwise once from the rates of the topology."""


class Priority(StrEnum):
    """Priority among Type II traffic at a WAN port."""

    HOPS = "hops"
    """Member paths with fewer WAN hops first."""
    NONE = "none"
    """All the same."""


class TrafficType(StrEnum):
    """Types of outgoing traffic, the most urgent first."""

    I = "I"  # noqa: E741 (its name in the published SD-WAN)
    """Urgent traffic between branches."""
    II = "II"
    """Other traffic between branches."""
    III = "III"
    """Traffic to the internet, which leaves directly by an internet port."""


class TcpProxyMode(StrEnum):
    """What the TCP proxy (PEP, RFC 3135) of the `quic` transport takes."""

    TCP = "tcp"
    """TCP connections: gateways terminate them and carry their data in QUIC streams."""


class Service(Model):
    """A service of a gateway itself, on its addresses in its branch's prefixes."""

    protocol: Literal["tcp", "udp", "any"]
    """`any` means everything."""
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """None: all ports."""


class Branch(Model):
    """A site: a LAN behind a gateway with one or more WAN ports."""

    id: Annotated[int, Field(ge=0, le=MAX_BRANCHES - 1)]
    """Number of the branch in path labels; unique. With the `mptcp` transport at most 15, with
    `label_bits: 6` at most 959."""
    gateway: Name
    """The node that is the branch's gateway (MMSG)."""
    wan: Annotated[tuple[PortName, ...], Field(min_length=1)]
    """The gateway's WAN ports, in order of preference."""
    lan: PortName
    """The gateway's LAN port."""
    prefix: IPv4Network
    """Addresses of the branch's LAN. The gateway gets the first, hosts the following ones."""
    services: tuple[Service, ...] = ()
    """Services of the gateway itself that other branches may reach. In a lab, none means all."""
    wan_services: tuple[Service, ...] | None = None
    """Those that everybody may reach from the WAN. None: no others in a network; in a lab, WAN
    ports filter nothing."""

    @property
    def lan_port(self) -> Port:
        """The gateway's port to the LAN."""
        return Port(self.gateway, self.lan)

    @property
    def wan_ports(self) -> tuple[Port, ...]:
        """The gateway's ports to the WAN."""
        return tuple(Port(self.gateway, name) for name in self.wan)


Route = Annotated[
    str,
    StringConstraints(
        pattern=r"^[a-z][a-z0-9-]*\.[a-z][a-z0-9-]*(>[a-z][a-z0-9-]*\.[a-z][a-z0-9-]*)+$",
        max_length=1024,
    ),
]
"""A member path, written as the branch ports that it passes: `b1.a>b2.a`.

A transit branch has two ports, those of arrival and departure: `b1.b>b3.b>b3.a>b2.a`.
"""


class PathGroup(Model):
    """Member paths that together carry one connection between two branches."""

    id: Annotated[int, Field(ge=0, le=MAX_GROUPS - 1)] | None = None
    """Number of the group in path labels, with the `mptcp` transport at most 15, with `label_bits:
    5` at most 31. Default: its position among the groups of the two branches."""
    traffic: Annotated[Literal[TrafficType.I, TrafficType.II], Field(alias="class")] = (
        TrafficType.II
    )
    """Type of traffic that it carries. Without a group for Type I, that uses any group."""
    paths: Annotated[tuple[Route, ...], Field(min_length=1, max_length=MAX_PATHS)]
    """Member paths in order of preference; all between the same two branches."""


class ClassRule(Match):
    """A rule of the classifier: packets that match all its properties are of this type."""

    type: TrafficType
    """Type of matching packets."""


class Settings(Model):
    """How an SD-WAN carries packets, independent of its branches."""

    transport: Transport = Transport.MPTCP
    """How packets are carried between branches."""
    encryption: Encryption = Encryption.TLS13
    """Encryption of the `mptcp` transport; `quic` is always encrypted, `ipip` never."""
    tcp_proxy: dict[Literal[TrafficType.I, TrafficType.II], TcpProxyMode] = {}
    """Types of traffic whose TCP connections the `quic` transport terminates at the gateways and
    carries as streams; others are carried packet by packet."""
    congestion: Congestion = Congestion.DELAY
    """Congestion control of the `quic` transport on each path."""
    recovery: Recovery = Recovery.RESEND
    """Whether the `quic` transport retransmits lost packets of TCP."""
    resequence: bool = True
    """Whether the `quic` transport restores the order of packets within flows; false only for
    measuring its effect."""
    header_compression: bool = True
    """Whether the `quic` transport compresses TCP headers; false only for measuring its effect."""
    oversize: Oversize = Oversize.ANSWER
    """What the `quic` transport does with packets that exceed the path MTU and must not be
    fragmented."""
    label_bits: Literal[5, 6] = 6
    """Bits of a path label of the `quic` transport for the path group. 6: at most 960 branches, and
    64 groups between two of them. 5: at most 1920 branches and 32 groups. All gateways change it
    together, and their UDP ports with it."""
    hubs: Annotated[tuple[Name, ...], Field(max_length=16)] = ()
    """Branches that all others have a tunnel to. Two others have one only where a path group joins
    them, and do not reach each other otherwise. Default: every pair of branches has a tunnel."""
    rendezvous: Name | None = None
    """Branch with the highest number, whose gateway has public addresses: it introduces gateways
    behind NATs to each other, and relays where no direct path opens. With the `quic` transport."""
    paths: Paths = Paths.MANUAL
    """Who chooses the member paths of pairs of branches without path groups; `automatic` with the
    `quic` transport only."""
    access: dict[Name, Annotated[tuple[Name, ...], Field(max_length=MAX_BRANCHES)]] = {}
    """Branches that may exchange packets with some others only, and these. Two branches may if each
    that has a list here names the other. Gateways answer other packets with an ICMP error, and
    never send them to the internet."""
    placement: Placement = Placement.FLOW_HASH
    """How inner flows are assigned to the path groups of a branch."""
    priority: Priority = Priority.HOPS
    """Priority among Type II traffic at a WAN port of a switch."""
    classes: Annotated[dict[Name, ClassRule], Field(max_length=256)] = {}
    """Rules of the classifier; the first that matches decides. Packets to another branch that match
    none are of Type II."""
    queue: Size = Size(1_000_000)
    """Bytes that a gateway queues for a peer while its connection is slow or down."""

    @property
    def label_space(self) -> LabelSpace:
        """What path labels tell apart. No wide label is below 4096, 2^12."""
        if self.transport is Transport.MPTCP:
            return LabelSpace(NARROW, NARROW, 4, 4, "the mptcp transport")
        low = self.label_bits
        branches = (1 << 16 - low) - (1 << 12 - low)
        return LabelSpace(branches, 1 << low, 16 - low, low, f"label_bits: {low}")


class Overlay(Settings):
    """One SD-WAN."""

    branches: dict[Name, Branch]
    """The sites, by name."""
    path_groups: dict[Name, PathGroup] = {}
    """Path groups. Default: one for each pair of branches, with all pairs of their WAN ports."""
    family: Literal[4, 6] = 4
    """Version of IP of the tunnels' packets at a lab's WAN ports that do not say it. With 6, they
    have IPv6 addresses besides, and channels of the internet apply to packets of IPv6. Lines of a
    network have the version of their addresses."""
    switch: SwitchKind | None = None
    """Switch for paths through other branches, with the `mptcp` and `quic` transports. Default:
    `bpf` if a path needs a switch, otherwise none."""

    def default_pairs(self) -> Iterator[tuple[str, str]]:
        """Give the pairs of branches that have a tunnel though no path group joins them."""
        hubs = frozenset(self.hubs)
        for one, other in combinations(self.branches, 2):
            if may_talk(self.access, one, other) and (not hubs or one in hubs or other in hubs):
                yield one, other

    @property
    def settings(self) -> Settings:
        """The settings alone."""
        return Settings(**{name: getattr(self, name) for name in Settings.model_fields})
