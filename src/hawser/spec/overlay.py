"""The SD-WAN over the topology: branches, their gateways, and how packets are carried between."""

from __future__ import annotations

from enum import StrEnum
from ipaddress import IPv4Network
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from hawser.spec.match import Match
from hawser.spec.model import Model, Name, PortName
from hawser.spec.port import Port
from hawser.spec.units import Size

MAX_BRANCHES = 960
"""Branches of one SD-WAN: a wide path label has 10 bits for a branch, of which 64 values are left
out."""

MAX_GROUPS = 64
"""Path groups of one pair of branches: a wide path label has 6 bits for them."""

MAX_PATHS = 16
"""Member paths of one group: of a narrow label, and of what the `quic` transport says of paths."""

NARROW = 16
"""Branches, and groups of a pair, with the `mptcp` transport: 4 bits each of a path label."""


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


class Congestion(StrEnum):
    """Congestion control of a path of the `quic` transport."""

    DELAY = "delay"
    """A short queue stands on each path (after FAST TCP)."""
    CUBIC = "cubic"
    """RFC 9438: fills queues, and halves its rate where packets are lost."""
    BBR = "bbr"
    """By the rate that was acknowledged and the shortest round trip."""


class Recovery(StrEnum):
    """What becomes of packets of the `quic` transport that a path loses."""

    RESEND = "resend"
    """Those of TCP are sent again on the path on which they arrive first."""
    NONE = "none"
    """They are lost."""


class SwitchKind(StrEnum):
    """What leads packets along their member paths, by swapping addresses (004 section III)."""

    BPF = "bpf"
    """TC programs at the WAN ports."""
    OPENFLOW = "openflow"
    """Open vSwitch, driven over OpenFlow 1.3."""
    NONE = "none"
    """Nothing: a member path is a pair of WAN ports, one WAN hop apart."""


class Placement(StrEnum):
    """How a gateway places inner flows on the path groups to a branch."""

    ROUND_ROBIN = "round_robin"
    """In turn, as flows appear."""
    FLOW_HASH = "flow_hash"
    """By a hash of their addresses and ports."""
    LEAST_LOADED = "least_loaded"
    """Where the least waits."""


class Priority(StrEnum):
    """What decides at a WAN port who goes first among Type II traffic."""

    HOPS = "hops"
    """Fewer WAN hops of its member path."""
    NONE = "none"
    """Nothing: all of it is alike."""


class TrafficType(StrEnum):
    """Classes of outgoing traffic, the most urgent first (004 section II.A)."""

    I = "I"  # noqa: E741 (the name it has everywhere)
    """Urgent, between branches."""
    II = "II"
    """Between branches."""
    III = "III"
    """Everything else: it leaves directly, by an internet port."""


class TcpProxyMode(StrEnum):
    """What the TCP proxy (PEP, RFC 3135) of the `quic` transport takes."""

    TCP = "tcp"
    """TCP connections: gateways terminate them and carry their data in QUIC streams."""


class Branch(Model):
    """A site: a LAN behind a gateway with one or more WAN ports."""

    id: Annotated[int, Field(ge=0, le=MAX_BRANCHES - 1)]
    """Number of the branch in path labels; unique. With the `mptcp` transport at most 15."""
    gateway: Name
    """The node that is the branch's gateway (MMSG)."""
    wan: Annotated[tuple[PortName, ...], Field(min_length=1)]
    """The gateway's WAN ports, in the order in which they are used."""
    lan: PortName
    """The gateway's LAN port."""
    prefix: IPv4Network
    """Addresses of the branch's LAN. The gateway gets the first, its hosts the following ones."""

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
"""A member path, written as the branch ports it passes: `b1.a>b2.a`.

Of a branch in between it names the port at which it arrives and the one by which it leaves:
`b1.b>b3.b>b3.a>b2.a`.
"""


class PathGroup(Model):
    """Member paths that together carry one connection between two branches."""

    id: Annotated[int, Field(ge=0, le=MAX_GROUPS - 1)] | None = None
    """Number of the group in path labels; its place among the groups of the two branches if left
    out. With the `mptcp` transport at most 15."""
    traffic: Annotated[Literal[TrafficType.I, TrafficType.II], Field(alias="class")] = (
        TrafficType.II
    )
    """Which traffic it carries. Type I uses any group where no group of its own is."""
    paths: Annotated[tuple[Route, ...], Field(min_length=1, max_length=MAX_PATHS)]
    """Member paths, the one that is used first in front; all between the same two branches."""


class ClassRule(Match):
    """A classifier's rule: what fits all that it says is of this type."""

    type: TrafficType
    """What it is then."""


class Settings(Model):
    """How an SD-WAN carries packets, whatever its branches are."""

    transport: Transport = Transport.MPTCP
    """How packets are carried between branches."""
    encryption: Encryption = Encryption.TLS13
    """Protection of the `mptcp` transport; `quic` always has it, `ipip` never."""
    tcp_proxy: dict[Literal[TrafficType.I, TrafficType.II], TcpProxyMode] = {}
    """Types of traffic whose TCP connections the `quic` transport terminates at the gateways and
    carries as streams; others are carried packet by packet."""
    congestion: Congestion = Congestion.DELAY
    """How much of the `quic` transport may be under way on a path."""
    recovery: Recovery = Recovery.RESEND
    """Whether the `quic` transport sends again what its paths lose."""
    resequence: bool = True
    """Whether the `quic` transport brings the packets of a flow back into order; false only to see
    what that is worth."""
    header_compression: bool = True
    """Whether the `quic` transport compresses headers of TCP; false only to see what that is
    worth."""
    placement: Placement = Placement.FLOW_HASH
    """How inner flows are placed on the groups to a branch."""
    priority: Priority = Priority.HOPS
    """What goes first at a WAN port that the switch sends to."""
    classes: Annotated[dict[Name, ClassRule], Field(max_length=256)] = {}
    """Rules that tell types of traffic apart, asked in this order; what fits none and goes to
    another branch is of Type II."""
    queue: Size = Size(1_000_000)
    """Bytes a gateway holds for a peer while its connection is slow or down."""


class Overlay(Settings):
    """One SD-WAN."""

    branches: dict[Name, Branch]
    """The sites, by name."""
    path_groups: dict[Name, PathGroup] = {}
    """By default one group for each pair of branches, with every pair of their WAN ports."""
    switch: SwitchKind | None = None
    """What leads paths through other branches, with the `mptcp` and `quic` transports; `bpf` where
    a path needs it, else none."""

    @property
    def settings(self) -> Settings:
        """How it carries packets."""
        return Settings(**{name: getattr(self, name) for name in Settings.model_fields})
