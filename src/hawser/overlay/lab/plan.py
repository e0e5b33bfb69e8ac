"""The plan of a lab: every interface, address, route, shaper and daemon.

It is complete: nothing is left to decide. `overlay.lab.network(scenario)` computes it without I/O,
and a driver carries it out.
"""

from __future__ import annotations

from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
)
from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import Field

from hawser.overlay.config.classifier import ClassifierConfig
from hawser.overlay.config.function import (
    FirewallConfig,
    FirewallRules,
    ForwarderConfig,
    IdsConfig,
    SffConfig,
)
from hawser.overlay.config.gateway import GatewayConfig
from hawser.overlay.config.openflow import ControllerConfig
from hawser.overlay.config.srv6_proxy import Srv6ProxyConfig
from hawser.overlay.config.wan import WanConfig
from hawser.spec.chain import Encapsulation, Proxy, Steering
from hawser.spec.model import Model
from hawser.spec.network import Network
from hawser.spec.topology import Impairment, Nat
from hawser.spec.tunnel import TunnelKind
from hawser.spec.units import Rate, Size


class InterfacePlan(Model):
    """One port of a node, as an interface."""

    name: str
    addresses: tuple[IPv4Interface | IPv6Interface, ...]
    mtu: int
    offload: bool
    """Whether packets may be larger than the MTU (TSO, GSO, GRO).

    Off at shaped interfaces: shapers and queues must see packets as they are on the wire.
    """
    mac: str | None = None
    """Ethernet address; None leaves the choice to the kernel."""
    gro: bool = False
    """Whether GRO is on although `offload` is off. An interface accepts frames that XDP programs
    send only with GRO or with an XDP program of its own."""
    threaded: bool = False
    """Whether a kernel thread receives packets (threaded NAPI), instead of their sender."""
    queues: Annotated[int, Field(ge=1)] = 1
    """Queues in each direction: the number of cores that can receive packets at once."""

    @property
    def ipv4(self) -> tuple[IPv4Address, ...]:
        """Its IPv4 addresses."""
        return tuple(each.ip for each in self.addresses if isinstance(each, IPv4Interface))


class RoutePlan(Model):
    """One route. Without a `table` it is in the main one."""

    to: IPv4Network | IPv6Network
    via: IPv4Address | IPv6Address | None = None
    interface: str
    source: IPv4Address | None = None
    table: int | None = None
    mtu: int | None = None
    """MTU of the route. Default: that of the interface."""
    segments: tuple[IPv6Address, ...] = ()
    """Segments that packets then pass, in this order (RFC 8986 section 5)."""
    mode: Encapsulation = Encapsulation.WHOLE
    """How segments are added to packets."""
    others: tuple[tuple[IPv4Address | IPv6Address, str], ...] = ()
    """Further next hops of equal cost with their interfaces; flows are spread over all (ECMP)."""
    kind: Literal["unicast", "blackhole", "unreachable", "prohibit"] = "unicast"
    """What happens to packets; only `unicast` sends them out of the interface."""


FIRST_RULE = 1000
"""Priority of a node's first rule, before the main table (32766); the next ones follow."""


class RulePlan(Model):
    """A rule that selects a routing table for matching packets; fields left out match all."""

    source: IPv4Network | IPv6Network | None = None
    """Source prefix: packets from each WAN address leave by its own port."""
    to: IPv4Network | IPv6Network | None = None
    """Destination prefix."""
    family: Literal[4, 6] = 4
    """IP version of the packets."""
    incoming: str | None = None
    """Interface at which packets arrive."""
    protocol: int | None = None
    """IP protocol number."""
    source_ports: tuple[int, int] | None = None
    """First and last source port."""
    destination_ports: tuple[int, int] | None = None
    """First and last destination port."""
    table: int


class SegmentPlan(Model):
    """A segment of this node with its behavior (RFC 8986)."""

    segment: IPv6Address
    behaviour: Literal["End", "End.X", "End.DX4", "End.DX6", "End.DT4", "End.DT6", "End.DT46"]
    """Packets that End.DX4 and End.DX6 decapsulate follow the node's routes."""
    interface: str
    via: IPv6Address | None = None
    """Next hop of End.X."""
    table: int | None = None
    """Routing table for packets that End.DT4, End.DT6 and End.DT46 decapsulate; except for End.DT6
    it belongs to a VRF."""


class VrfPlan(Model):
    """A VRF: a routing table with a device."""

    name: str
    table: int


class MptcpEndpoint(Model):
    """One address for the kernel's MPTCP path manager (`ip mptcp endpoint`)."""

    address: IPv4Address
    interface: str | None
    """The interface that its subflows are bound to; None means any."""
    flags: tuple[Literal["subflow", "signal", "fullmesh"], ...]


class NatPlan(Model):
    """Translation of the addresses of packets that leave by an interface."""

    outside: str
    """That interface."""
    mapping: Nat


class NodePlan(Model):
    """One machine: its interfaces, routes and kernel settings."""

    name: str
    role: Literal["host", "gateway", "nat", "internet", "backbone", "wan", "controller", "function"]
    interfaces: tuple[InterfacePlan, ...]
    redirects: tuple[tuple[str, str], ...] = ()
    """Pairs of interfaces: packets that arrive at the first are sent out of the second."""
    routes: tuple[RoutePlan, ...] = ()
    rules: tuple[RulePlan, ...] = ()
    mptcp: tuple[MptcpEndpoint, ...] = ()
    segments: tuple[SegmentPlan, ...] = ()
    vrfs: tuple[VrfPlan, ...] = ()
    untrusted: tuple[str, ...] = ()
    """Interfaces at which packets to segments, or with a segment routing header, are dropped and
    counted (RFC 8754 section 5.1)."""
    nat: NatPlan | None = None
    sysctl: dict[str, str] = {}
    cpu: float | None = None
    """CPU cores that all its programs together may use; None means no limit."""


class LinkPlan(Model):
    """A cable: two interfaces, each `(node, interface)`."""

    name: str
    ends: tuple[tuple[str, str], tuple[str, str]]
    wire: tuple[str, str] | None = None
    """Interfaces of the WAN emulator to the first and second end, if it is between them."""


class ClassPlan(Impairment):
    """Traffic of one direction of a path or link on a shaped interface."""

    name: str
    """Element and direction, such as `path:p1:forward`, as used by counters and events."""
    source: IPv4Network | IPv6Network | None = None
    """Source addresses of its packets; None means all packets that match no other class."""
    marked: bool = False
    """Whether it takes only packets whose `skb->priority` is its number (`class_id`)."""
    priority: int = 0
    """Priority for the remaining rate of the shaper, 0 to 7, the lowest number first."""
    rate: Rate | None = None
    queue: Size | None = None
    emulated: bool = False
    """Whether the WAN emulator does everything but rate and queue, instead of netem."""
    queue_emulated: bool = False
    """Whether the WAN emulator also does rate and queue, instead of HTB."""


class ShaperPlan(Model):
    """The egress shaper of one interface: a total rate, and a class for each path."""

    node: str
    interface: str
    name: str
    rate: Rate | None = None
    classes: tuple[ClassPlan, ...]
    sender_marks: bool = False
    """Whether marked classes also take packets by the sender's Ethernet address: its second byte is
    the last of the class's number."""


Role = Literal[
    "gateway",
    "wan",
    "openflow",
    "sff",
    "classifier",
    "forwarder",
    "firewall",
    "ids",
    "srv6-proxy",
    "ipsec",
]
"""Role of a daemon. `openflow` is the OpenFlow controller, the others are `hawserd`'s; the last
seven take part in service chains."""

DaemonConfig = (
    GatewayConfig
    | WanConfig
    | ControllerConfig
    | SffConfig
    | ClassifierConfig
    | ForwarderConfig
    | FirewallConfig
    | IdsConfig
    | Srv6ProxyConfig
)


class DaemonPlan(Model):
    """A daemon on a node, with its configuration. `Daemon` lists the kinds."""

    node: str
    role: Role
    name: str
    config: DaemonConfig
    """Paths in it are relative to the lab's directory: `config.placed(directory)`."""
    files: dict[str, FirewallRules | str] = {}
    """Initial files of the daemon, by name in the lab's directory."""


class GatewayDaemon(DaemonPlan):
    """A gateway's daemon."""

    role: Literal["gateway"] = "gateway"
    config: GatewayConfig
    joined: bool = False
    """Whether it is started by an agent, which gets this configuration from the controller."""


class WanDaemon(DaemonPlan):
    """The WAN emulator."""

    role: Literal["wan"] = "wan"
    config: WanConfig


class OpenFlowDaemon(DaemonPlan):
    """The OpenFlow controller."""

    role: Literal["openflow"] = "openflow"
    config: ControllerConfig


class SffDaemon(DaemonPlan):
    """A forwarder of chains that are steered by NSH."""

    role: Literal["sff"] = "sff"
    config: SffConfig


class ClassifierDaemon(DaemonPlan):
    """The classifier of chains that are steered by the kernel."""

    role: Literal["classifier"] = "classifier"
    config: ClassifierConfig


class ForwarderDaemon(DaemonPlan):
    """A forwarder function."""

    role: Literal["forwarder"] = "forwarder"
    config: ForwarderConfig


class FirewallDaemon(DaemonPlan):
    """A firewall."""

    role: Literal["firewall"] = "firewall"
    config: FirewallConfig


class IdsDaemon(DaemonPlan):
    """An intrusion detection sensor."""

    role: Literal["ids"] = "ids"
    config: IdsConfig


class Srv6ProxyDaemon(DaemonPlan):
    """The SR proxy of an SR-unaware function."""

    role: Literal["srv6-proxy"] = "srv6-proxy"
    config: Srv6ProxyConfig


Daemon = Annotated[
    GatewayDaemon
    | WanDaemon
    | OpenFlowDaemon
    | SffDaemon
    | ClassifierDaemon
    | ForwarderDaemon
    | FirewallDaemon
    | IdsDaemon
    | Srv6ProxyDaemon,
    Field(discriminator="role"),
]
"""A daemon of a plan: its role says which configuration it has."""


AGENTS = PurePosixPath("agents")
"""Folder of the lab in which every agent has a directory, named after its gateway."""


class ControllerPlan(Model):
    """The controller, and the agents that join it."""

    node: str
    address: IPv4Address
    """Where the agents reach it."""
    network: Network
    """The network that it is started with."""
    gateways: dict[str, str]
    """Gateway of every branch."""


def pid_file(process: str) -> PurePosixPath:
    """Give the file with the id of a process, in the lab's directory."""
    return PurePosixPath("daemons", f"{process}.pid")


class ProgramPlan(Model):
    """A third-party program as an SFC-unaware function (RFC 7665 section 4.6)."""

    node: str
    """The function's instance, and its name."""
    setup: tuple[tuple[str, ...], ...] = ()
    """Setup commands that run before each start."""
    command: tuple[str, ...] = ()
    """The program; empty if `setup` alone configures the function."""
    files: dict[str, str] = {}
    """Files in the directory in which they run."""


class CrossTrafficPlan(Model):
    """Cross traffic through a bottleneck in one direction, while the lab exists."""

    name: str
    """The bottleneck and direction: `x-forward`."""
    shaper: str
    """Node of the shaper that it passes."""
    counter: str
    """The shaper's class."""
    source: str
    """Node that sends."""
    target: str
    """Node that receives."""
    local: IPv4Address
    remote: IPv4Address
    """Addresses it is sent from and to."""
    frame: int
    """Bytes of its largest frames."""
    udp: Rate | None = None
    """A flow of this rate, counted as frames."""
    tcp: int | None = None
    """Number of TCP connections."""


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
    """One end of a third-party VPN tunnel, or of one between IPsec functions."""

    name: str
    kind: TunnelKind
    node: str
    peer: str
    """The node of the other end."""
    local: IPv4Address
    remote: IPv4Address
    """Addresses between which it runs."""
    inside: tuple[IPv4Network, ...]
    """Networks behind this end."""
    outside: tuple[IPv4Network, ...]
    """Networks behind the other end, reached through the tunnel."""
    table: int | None = None
    """Routing table whose packets all use the tunnel; None: all packets to `outside` use it."""

    @property
    def control(self) -> PurePosixPath:
        """Control socket of the function that is this end, in the lab's directory."""
        return PurePosixPath("tunnels", self.name, self.node, "control")


class ServicePathPlan(Model):
    """A chain in one direction."""

    name: str
    """Chain and direction: `web:forward`."""
    number: int
    """Its service path identifier (RFC 8300 section 2.3), unique in the lab."""
    functions: tuple[str, ...]
    """Functions in the order in which packets pass them."""
    way: tuple[str, ...]
    """Nodes and functions that its packets pass, from one end to the other."""
    segments: tuple[IPv6Address, ...] = ()
    """Its segment list, with `srv6`."""
    proxies: dict[str, Proxy] = {}
    """Kind of proxy by function."""


class ChainPlan(Model):
    """A service function chain with its service paths."""

    name: str
    steering: Steering
    mode: Encapsulation | None = None
    """With `srv6`, how segments are added to packets."""
    fail: Literal["closed", "open"]
    mtu: int
    """Largest packet that passes it without fragmentation."""
    service_paths: tuple[ServicePathPlan, ...]


class NetworkPlan(Model):
    """The plan of one lab."""

    nodes: tuple[NodePlan, ...]
    links: tuple[LinkPlan, ...]
    shapers: tuple[ShaperPlan, ...]
    daemons: tuple[Daemon, ...]
    addresses: dict[str, IPv4Address]
    """Address of every port (`node.port`), and of every node (its LAN, else its first port)."""
    addresses6: dict[str, IPv6Address] = {}
    """IPv6 address of every port that has one, and of every node with such a port (its first)."""
    tunnels: tuple[TunnelPlan, ...] = ()
    """Both ends of each tunnel, the initiator first."""
    cross_traffic: tuple[CrossTrafficPlan, ...] = ()
    """Cross traffic at bottlenecks."""
    switches: tuple[SwitchPlan, ...] = ()
    programs: tuple[ProgramPlan, ...] = ()
    """Third-party programs as functions."""
    chains: tuple[ChainPlan, ...] = ()
    controller: ControllerPlan | None = None
    """The controller that gateways join; None if the lab configures them."""
    instances: dict[str, tuple[str, ...]] = {}
    """Nodes that are instances of each function of a chain."""
    seed: int = 1
    """Seed of random impairments: with equal seeds the same packets are lost."""
    hawserd: str = ""
    """Program of its daemons in Rust. Default: the machine's own."""
