"""What a driver must make: every interface, address, route, shaper and daemon.

Nothing is left to decide. `overlay.network(scenario)` computes it, purely; a driver carries it out.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from typing import Literal

from hawser.spec.model import Model
from hawser.spec.units import Duration, Rate, Ratio, Size


class InterfacePlan(Model):
    """One port of a node, as an interface."""

    name: str
    addresses: tuple[IPv4Interface, ...]
    mtu: int
    offload: bool
    """Whether packets may be larger than the MTU here (TSO, GSO, GRO).

    Off where a rate is shaped: a shaper and a queue must see packets as they are on the wire.
    """


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
    table: int


class MptcpEndpoint(Model):
    """One address for the kernel's MPTCP path manager (`ip mptcp endpoint`)."""

    address: IPv4Address
    interface: str
    flags: tuple[Literal["subflow", "signal", "fullmesh"], ...]


class NodePlan(Model):
    """One machine: its interfaces, how it routes, and the kernel settings it needs."""

    name: str
    role: Literal["host", "gateway", "internet"]
    interfaces: tuple[InterfacePlan, ...]
    routes: tuple[RoutePlan, ...] = ()
    rules: tuple[RulePlan, ...] = ()
    mptcp: tuple[MptcpEndpoint, ...] = ()
    sysctl: dict[str, str] = {}


class LinkPlan(Model):
    """A cable: two interfaces, each `(node, interface)`."""

    name: str
    ends: tuple[tuple[str, str], tuple[str, str]]


class ClassPlan(Model):
    """Traffic of one direction of a path or link on a shaped interface."""

    name: str
    """Element and direction, such as `path:p1:forward`: so it is counted and changed."""
    source: IPv4Network | None = None
    """Packets from here belong to the class; None takes all that no other class takes."""
    rate: Rate | None = None
    queue: Size | None = None
    delay: Duration | None = None
    jitter: Duration | None = None
    loss: Ratio | None = None


class ShaperPlan(Model):
    """The egress of one interface: a rate for all, and under it one class a path."""

    node: str
    interface: str
    name: str
    rate: Rate | None = None
    classes: tuple[ClassPlan, ...]


class DaemonPlan(Model):
    """A `hawserd` on a node, with its configuration (schemas/gateway-config.schema.json)."""

    node: str
    role: Literal["gateway"]
    name: str
    config: dict[str, object]
    """Paths in it are relative to the lab's directory: the driver makes them absolute."""


class NetworkPlan(Model):
    """All of one lab."""

    nodes: tuple[NodePlan, ...]
    links: tuple[LinkPlan, ...]
    shapers: tuple[ShaperPlan, ...]
    daemons: tuple[DaemonPlan, ...]
    addresses: dict[str, IPv4Address]
    """Address of every port (`node.port`), and of every node (its LAN, else its first port)."""
