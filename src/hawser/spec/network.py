"""A network that is operated: an SD-WAN, and the real ports of its gateways.

    hawser: 1
    name: acme
    overlay: {transport: quic, branches: {...}, path_groups: {...}, classes: {...}}
    ports:
      gw1.a: {address: 198.51.100.2, next_hop: 198.51.100.1, rate: 40 Mbit/s, label: fibre}
    policy: {II: {labels: [fibre]}}

`overlay` is a workflow's. A workflow puts it on a topology of the lab, a network on ports that
exist: so a network can be tried in a lab first, and a lab can become a network.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, StringConstraints

from hawser.spec.model import Model, Name, PortName
from hawser.spec.overlay import MAX_BRANCHES, Overlay, TrafficType
from hawser.spec.pair import second_of
from hawser.spec.policy import Application, ApplicationName, ClassPolicy
from hawser.spec.port import Port
from hawser.spec.site import Site, Template
from hawser.spec.topology import Channel, Internet, Link, Nat, Node, PortType, Topology, WanPort
from hawser.spec.units import Rate

Interface = Annotated[
    str, StringConstraints(pattern=r"^[a-zA-Z0-9_][a-zA-Z0-9_.@-]{0,14}$", max_length=15)
]
"""A network interface's name in Linux."""


def _checked(value: object) -> object:
    """Refuse what is no address once, and not for either version."""
    if isinstance(value, str):
        ip_address(value)
    return value


Address = Annotated[IPv4Address | IPv6Address, BeforeValidator(_checked)]


class AccessLine(Model):
    """A WAN port of a gateway, with what is known of the line it leads to."""

    interface: Interface | None = None
    """The gateway's network interface; the port's name if left out."""
    address: Address
    """The port's address. Tunnels join only lines with addresses of the same version."""
    second: IPv4Address | None = None
    """A second address, at which connections of the `mptcp` transport are accepted. A gateway that
    both connects and listens needs one with IPv4: all but those of the lowest and the highest
    number."""
    next_hop: Address
    """The router on this line. One of IPv6 may have a link-local address."""
    type: PortType = PortType.INTERNET
    """Where the line leads. Type III traffic leaves by internet ports only."""
    behind_nat: bool = False
    """Whether a NAT translates the address, so that nobody can connect to it from outside."""
    rate: Rate | None = None
    """What the line carries from the gateway."""
    download: Rate | None = None
    """What it carries to the gateway; as `rate` if left out."""
    label: Name | None = None
    """What kind of line it is, such as `fibre` or `lte`."""
    cost_per_gb: Annotated[float, Field(ge=0, le=1e6)] | None = None
    """Price of 10^9 bytes, in the currency of the operator's choice."""
    quota_gb: Annotated[float, Field(gt=0, le=1e9)] | None = None
    """10^9 bytes a month that the contract includes."""


class FunctionPort(Model):
    """Where a gateway reaches a service function, which routes packets and keeps their addresses.

    Packets from the branch are sent to `next_hop` and come back by the return interface; those to
    the branch go the other way round.
    """

    interface: Interface
    """The gateway's interface to it, used for nothing else."""
    next_hop: IPv4Address
    """Its address there."""
    return_interface: Interface | None = None
    """The gateway's interface to its other side; the same if left out."""
    return_next_hop: IPv4Address | None = None
    """Its address there."""


class SecondGateway(Model):
    """A second gateway of a branch, at the same LAN: others have paths to both."""

    gateway: Name
    """Its name."""
    wan: Annotated[tuple[PortName, ...], Field(min_length=1)]
    """Its WAN ports, in order of preference."""
    lan: PortName
    """Its LAN port."""
    address: IPv4Address
    """Its address on the LAN. The first gateway has the first address of the branch's prefix."""


class Network(Model):
    """Branches, path groups and classes, with the ports of the gateways."""

    hawser: Literal[1] = 1
    """Version of the format."""
    name: Name
    """Name of the network."""
    overlay: Overlay
    """The SD-WAN, as a workflow has it."""
    ports: dict[Port, AccessLine] = {}
    """WAN ports of the gateways, `gateway.port`."""
    prefixes: dict[Name, tuple[IPv4Network | IPv6Network, ...]] = {}
    """Further addresses behind branches, by branch."""
    pairs: dict[Name, SecondGateway] = {}
    """Second gateways, by branch."""
    templates: Annotated[dict[Name, Template], Field(max_length=256)] = {}
    """What branches have in common, for `sites`."""
    sites: Annotated[dict[Name, Site], Field(max_length=MAX_BRANCHES)] = {}
    """Branches that are made of templates."""
    applications: Annotated[dict[ApplicationName, Application], Field(max_length=256)] = {}
    """Applications, for `policy`."""
    policy: dict[TrafficType, ClassPolicy] = {}
    """What each class is, and the lines that it uses."""
    functions: Annotated[dict[Name, dict[Name, FunctionPort]], Field(max_length=16)] = {}
    """Service functions for `chain` of the policy, and where they are, by branch."""
    mtu: Annotated[int, Field(ge=1280, le=9216)] = 1500
    """Largest IP packet that all lines carry, bytes."""

    def branch_of(self, gateway: str) -> str | None:
        """Name of a gateway by its branch (`spec.pair`); None where it belongs to none."""
        found = {each.gateway: name for name, each in self.overlay.branches.items()}
        found |= {each.gateway: second_of(name) for name, each in self.pairs.items()}
        return found.get(gateway)


def topology(network: Network) -> Topology:
    """Give the topology of the lab that is like a network: its lines, and one host a branch."""
    branches = network.overlay.branches.values()
    names = [branch.gateway for branch in branches]
    hosts = [f"lan-{branch.id}" for branch in branches]
    links = {
        host: Link(ends=(branch.lan_port, Port(host, "lan")))
        for host, branch in zip(hosts, branches, strict=True)
    }
    of_first = {port: line for port, line in network.ports.items() if port.node in names}
    ports = {
        port: WanPort(
            type=line.type,
            nat=Nat.ENDPOINT_INDEPENDENT if line.behind_nat else None,
            rate=line.rate,
            reverse=Channel(rate=line.download) if line.download else None,
            family=line.address.version,
        )
        for port, line in of_first.items()
    }
    return Topology(
        nodes={name: Node() for name in (*names, *hosts)},
        links=links,
        internet=Internet(ports=ports, mtu=network.mtu),
    )
