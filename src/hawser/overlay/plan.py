"""What a driver must make: every interface, address, route, shaper and daemon.

Nothing is left to decide. `overlay.network(scenario)` computes it, purely; a driver carries it out.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from typing import Literal

from hawser.spec.model import Model
from hawser.spec.topology import Impairment
from hawser.spec.tunnel import TunnelKind
from hawser.spec.units import Rate, Size

FIRST_CLASS = 0x1_0010
"""HTB class of a shaper's first class; the others follow."""


def class_id(position: int) -> int:
    """Give the HTB class of a shaper's class by its position; marked packets name it."""
    return FIRST_CLASS + position


class InterfacePlan(Model):
    """One port of a node, as an interface."""

    name: str
    addresses: tuple[IPv4Interface, ...]
    mtu: int
    offload: bool
    """Whether packets may be larger than the MTU here (TSO, GSO, GRO).

    Off where a rate is shaped: a shaper and a queue must see packets as they are on the wire.
    """
    mac: str | None = None
    """Ethernet address; None leaves the choice to the kernel."""


class RoutePlan(Model):
    """One route. Without a `table` it is in the main one."""

    to: IPv4Network
    via: IPv4Address | None = None
    interface: str
    source: IPv4Address | None = None
    table: int | None = None


class RulePlan(Model):
    """Packets from here look in this routing table: each WAN address leaves by its own port."""

    source: IPv4Network
    to: IPv4Network | None = None
    """Only those to here."""
    incoming: str | None = None
    """Only those that came in at this interface."""
    table: int


class MptcpEndpoint(Model):
    """One address for the kernel's MPTCP path manager (`ip mptcp endpoint`)."""

    address: IPv4Address
    interface: str | None
    """Whose packets alone a subflow from here takes; None: those of all."""
    flags: tuple[Literal["subflow", "signal", "fullmesh"], ...]


class NodePlan(Model):
    """One machine: its interfaces, how it routes, and the kernel settings it needs."""

    name: str
    role: Literal["host", "gateway", "internet", "backbone", "wan", "controller"]
    interfaces: tuple[InterfacePlan, ...]
    redirects: tuple[tuple[str, str], ...] = ()
    """What comes in at the first interface goes out at the second, whatever it is."""
    routes: tuple[RoutePlan, ...] = ()
    rules: tuple[RulePlan, ...] = ()
    mptcp: tuple[MptcpEndpoint, ...] = ()
    sysctl: dict[str, str] = {}
    cpu: float | None = None
    """Cores that all its programs together may use; None: no limit."""


class LinkPlan(Model):
    """A cable: two interfaces, each `(node, interface)`."""

    name: str
    ends: tuple[tuple[str, str], tuple[str, str]]
    wire: tuple[str, str] | None = None
    """Where the WAN emulator is in between: its interfaces towards the first and second end."""


class ClassPlan(Impairment):
    """Traffic of one direction of a path or link on a shaped interface."""

    name: str
    """Element and direction, such as `path:p1:forward`: so it is counted and changed."""
    source: IPv4Network | None = None
    """Packets from here belong to the class; None takes all that no other class takes."""
    marked: bool = False
    """Whether only packets belong to it that carry its number (`class_id`) as their priority."""
    priority: int = 0
    """Who borrows what is left of the whole: the lowest number first, 0 to 7."""
    rate: Rate | None = None
    queue: Size | None = None
    emulated: bool = False
    """Whether all but rate and queue is the WAN emulator's; else it is the kernel's (netem)."""


class ShaperPlan(Model):
    """The egress of one interface: a rate for all, and under it one class a path."""

    node: str
    interface: str
    name: str
    rate: Rate | None = None
    classes: tuple[ClassPlan, ...]
    sender_marks: bool = False
    """Whether marked classes also take packets by the sender's Ethernet address: its second byte is
    the last of the class's number."""


class DaemonPlan(Model):
    """A daemon on a node, with its configuration (schemas/ROLE-config.schema.json).

    Role `openflow` is the OpenFlow controller, the others are `hawserd`'s.
    """

    node: str
    role: Literal["gateway", "wan", "openflow"]
    name: str
    config: dict[str, object]
    """Paths in it are relative to the lab's directory: the driver makes them absolute."""


class BackgroundPlan(Model):
    """Traffic of others across a bottleneck, in one direction; for as long as the lab stands."""

    name: str
    """The bottleneck and direction: `x-forward`."""
    counter: str
    """The shaper's class that it passes."""
    source: str
    """Node that sends."""
    target: str
    """Node that takes."""
    local: IPv4Address
    remote: IPv4Address
    """Addresses it is sent from and to."""
    frame: int
    """Bytes of its largest frames."""
    udp: Rate | None = None
    """A flow of this rate, counted as frames."""
    tcp: int | None = None
    """So many connections."""


class SwitchPlan(Model):
    """An OpenFlow switch on a node: Open vSwitch with its datapath in user space."""

    node: str
    datapath_id: int
    ports: tuple[tuple[str, int], ...]
    """Interfaces of the node, each with its OpenFlow number."""
    socket: str
    """Unix socket of its controller, relative to the lab's directory; the switch keeps its own
    files beside it."""


class TunnelPlan(Model):
    """One end of a tunnel of other people's software."""

    name: str
    kind: TunnelKind
    node: str
    peer: str
    """The node of the other end."""
    local: IPv4Address
    remote: IPv4Address
    """Addresses between which it runs."""
    inside: tuple[IPv4Network, ...]
    """What lies behind this end."""
    outside: tuple[IPv4Network, ...]
    """What lies behind the other, and is reached through the tunnel."""


class NetworkPlan(Model):
    """All of one lab."""

    nodes: tuple[NodePlan, ...]
    links: tuple[LinkPlan, ...]
    shapers: tuple[ShaperPlan, ...]
    daemons: tuple[DaemonPlan, ...]
    addresses: dict[str, IPv4Address]
    """Address of every port (`node.port`), and of every node (its LAN, else its first port)."""
    tunnels: tuple[TunnelPlan, ...] = ()
    """Both ends of each, the one that opens it first."""
    background: tuple[BackgroundPlan, ...] = ()
    """Traffic of others."""
    switches: tuple[SwitchPlan, ...] = ()
    seed: int = 1
    """Of all chance on links and paths: equal seeds lose the same packets."""
