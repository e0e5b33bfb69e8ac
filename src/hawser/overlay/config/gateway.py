"""Configuration of `hawserd gateway` (schemas/gateway-config.schema.json)."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface
from typing import Annotated, Literal

from pydantic import Field, model_validator

from hawser.overlay.config.base import (
    OMIT_EMPTY,
    OMIT_NONE,
    Configuration,
    Need,
    Network,
    Part,
    Place,
    PortRange,
    omit,
    replace_old_names,
)
from hawser.overlay.config.entry import Entry
from hawser.spec.overlay import (
    Congestion,
    Oversize,
    Placement,
    Recovery,
    Service,
    TcpProxyMode,
    TrafficType,
)
from hawser.spec.policy import Otherwise

Address = IPv4Address | IPv6Address
Carried = Literal[TrafficType.I, TrafficType.II]
"""Types of traffic that go to other branches."""


class Tun(Part):
    """The TUN device for packets to and from other branches."""

    name: str
    mtu: int
    address: IPv4Interface | IPv6Interface | None = None
    """Its address and prefix length, if it has one."""


class Tls(Part):
    """Encryption with TLS 1.3: files in PEM form."""

    certificate: Place
    """Certificate (chain) of this branch; its subject alternative name is the branch's name."""
    key: Place
    """Its private key."""
    ca: Place
    """Certificate of the authority that signs those of all branches."""
    revoked: Annotated[tuple[str, ...], OMIT_EMPTY] = ()
    """SHA-256 fingerprints of certificates that are refused though the authority signed them."""
    revoked_file: Annotated[Place | None, OMIT_NONE] = None
    """File of further fingerprints, one per line."""


class IpipTransport(Part):
    """IP in IP (RFC 2003), over the first path of the first group."""

    kind: Literal["ipip"] = "ipip"
    insecure: Annotated[bool, omit(value=False)] = False
    """Must be true, since it neither encrypts nor authenticates."""


class MptcpTransport(Part):
    """IP over Multipath TCP, over all paths of a group at once."""

    kind: Literal["mptcp"] = "mptcp"
    tls: Tls | None = None
    """None for no encryption."""
    insecure: Annotated[bool, omit(value=False)] = False
    """Must be true without encryption."""


class QuicTransport(Part):
    """IP in QUIC datagrams: one connection per path, over all of them at once."""

    kind: Literal["quic"] = "quic"
    tls: Tls
    udp_offload: Annotated[bool | None, OMIT_NONE] = None
    """Whether the kernel segments batches of datagrams (UDP GSO); None: if a self-test passes."""
    tcp_proxy: Annotated[Mapping[Carried, TcpProxyMode], OMIT_EMPTY] = {}
    """Types of traffic whose TCP connections end at the gateways and are carried as streams."""
    congestion: Annotated[Congestion, omit(Congestion.DELAY)] = Congestion.DELAY
    """Congestion control of a path."""
    recovery: Annotated[Recovery, omit(Recovery.RESEND)] = Recovery.RESEND
    """What happens to packets that a path loses."""
    resequence: Annotated[bool, omit(value=True)] = True
    """Whether the receiver restores the order of each flow."""
    header_compression: Annotated[bool, omit(value=True)] = True
    """Whether headers of TCP packets are compressed."""
    oversize: Annotated[Oversize, omit(Oversize.ANSWER)] = Oversize.ANSWER
    """What happens to packets that exceed the path MTU."""
    label_bits: Annotated[Literal[5, 6], omit(value=6)] = 6
    """Bits of a path label for the group or the member path; the same in all gateways."""
    wire_version: Annotated[int, omit(value=3), Field(ge=1, le=3)] = 3
    """Newest wire version that is spoken; older ones are for tests."""

    @model_validator(mode="before")
    @classmethod
    def _old_names(cls, data: object) -> object:
        return replace_old_names(data, lane="tcp_proxy")


Transport = Annotated[IpipTransport | MptcpTransport | QuicTransport, Field(discriminator="kind")]
"""How packets are carried."""


class Path(Part):
    """A member path, as a pair of WAN addresses. `local` or `interface` is given, or both."""

    local: Annotated[Address | None, OMIT_NONE] = None
    """Address of this gateway; None: that of `interface`, whichever it has."""
    interface: Annotated[str | None, OMIT_NONE] = None
    """By which alone its packets leave and arrive; None: routing decides."""
    family: Annotated[Literal["any", "ipv4", "ipv6"], omit("any")] = "any"
    """Version of IP, where neither end is an address."""
    remote: Annotated[Address | str | None, OMIT_NONE] = None
    """Address of the peer or its DNS name; None: the peer connects, and TLS tells who it is."""


class Sla(Part):
    """What the paths of a group have to offer to its class."""

    rate_bps: Annotated[int | None, OMIT_NONE] = None
    """Least rate, bit/s."""
    delay_us: Annotated[int | None, OMIT_NONE] = None
    """Greatest one-way delay, microseconds."""
    jitter_us: Annotated[int | None, OMIT_NONE] = None
    """Greatest variation of the round-trip time, microseconds."""
    loss_ppm: Annotated[int | None, OMIT_NONE] = None
    """Greatest fraction of bytes lost, in millionths."""
    margin_ppm: int
    """By what fraction a path has to be better than that before it is used again."""
    leave_after_ms: int
    """For how long a path has to be worse before it is left."""
    enter_after_ms: int
    """For how long it has to be better before it is used again."""


class Group(Part):
    """Member paths used together by one connection; with `quic`, one connection per path."""

    id: int
    """Number of the group in path labels."""
    paths: tuple[Path, ...]
    """The first subflow uses the first."""
    traffic: Annotated[Carried, Field(alias="class"), omit(TrafficType.II)] = TrafficType.II
    """Traffic class that it carries."""
    sla: Annotated[Sla | None, OMIT_NONE] = None
    """What its paths have to offer to the class."""
    otherwise: Annotated[Otherwise, omit(Otherwise.ANY)] = Otherwise.ANY
    """What happens to flows of the class while none of its paths does."""


class Peer(Part):
    """Another branch."""

    branch: str
    id: int
    """Its number in path labels. The branch with the lower number connects."""
    prefixes: tuple[Network, ...]
    """Prefixes behind it."""
    groups: tuple[Group, ...]


class SwitchPort(Part):
    """A WAN port of a switch."""

    name: str
    interface: str
    address: Annotated[IPv4Address | None, OMIT_NONE] = None
    """IPv4 address; None if the port has none. It has one of at least one version."""
    next_hop: Annotated[IPv4Address | None, OMIT_NONE] = None
    """Next hop of packets of IPv4 that leave by this port; given with `address`."""
    address6: Annotated[IPv6Address | None, OMIT_NONE] = None
    """IPv6 address; None if entries of IPv6 do not use the port."""
    next_hop6: Annotated[IPv6Address | None, OMIT_NONE] = None
    """Next hop of packets of IPv6; given with `address6`."""
    type: Literal["internet", "leased"]


class Switch(Part):
    """The switch between the agent and the WAN ports."""

    kind: Literal["bpf", "openflow"]
    """Programs of this gateway, or an OpenFlow switch that the controller drives."""
    ports: tuple[SwitchPort, ...]
    entries: tuple[Entry, ...] = ()
    """Exact match only: at most one entry matches a packet."""


class ClassifierRule(Part):
    """A rule: packets that match all its fields are of this type. None matches everything."""

    name: str
    source: Network | None = None
    destination: Network | None = None
    protocol: Literal["tcp", "udp", "icmp"] | Annotated[int, Field(ge=0, le=255)] | None = None
    source_ports: PortRange | None = None
    destination_ports: PortRange | None = None
    dscp: Annotated[int, Field(ge=0, le=63)] | None = None
    type: TrafficType


class Classifier(Part):
    """Classifies LAN traffic."""

    lan: str
    """The LAN's interface."""
    rules: tuple[ClassifierRule, ...] = ()
    """In order; the first match decides."""
    default: Literal[TrafficType.II, TrafficType.III] = TrafficType.II
    """Type of traffic to other branches that no rule matches."""
    internet: Annotated[tuple[str, ...], OMIT_EMPTY] = ()
    """WAN interfaces of Type III, without a switch."""


class MaxRate(Part):
    """Most that a branch sends of each type of traffic, bit/s."""

    urgent: Annotated[int | None, OMIT_NONE, Field(alias="I")] = None
    """Type I, to all branches together."""
    other: Annotated[int | None, OMIT_NONE, Field(alias="II")] = None
    """Type II, to all branches together."""
    direct: Annotated[int | None, OMIT_NONE, Field(alias="III")] = None
    """Type III, by all ports together."""


class Wan(Part):
    """WAN interfaces, which take only what the gateway asked for."""

    interfaces: tuple[str, ...]
    services: Annotated[tuple[Service, ...], OMIT_EMPTY] = ()
    """Services of the gateway itself that everybody may reach through them."""
    echo: Annotated[bool, omit(value=False)] = False
    """Whether the gateway answers echo requests there."""
    vlans: Annotated[tuple[int, ...], OMIT_EMPTY] = ()
    """VLANs on them whose frames pass."""


class GatewayConfig(Configuration):
    """One gateway (MMSG) of an SD-WAN."""

    branch: str
    """Name of the branch; with TLS also the name in its certificate."""
    id: int
    """Number of the branch in path labels."""
    control: Place
    """Unix socket of the control API."""
    tun: Tun
    source: IPv4Address | None = None
    """Source address of the gateway's own packets to other branches: its LAN address."""
    source6: Annotated[IPv6Address | None, OMIT_NONE] = None
    """The same for IPv6."""
    local: Annotated[tuple[Network, ...] | None, OMIT_NONE] = None
    """Prefixes behind the gateway: all that peers reach. None: whatever the gateway reaches."""
    services: Annotated[tuple[Service, ...], OMIT_EMPTY] = ()
    """Services of the gateway itself that peers may reach."""
    prohibited: Annotated[tuple[Network, ...], OMIT_EMPTY] = ()
    """Prefixes of branches that this one must not reach."""
    transport: Transport
    rendezvous: Annotated[str | None, OMIT_NONE] = None
    """Branch that introduces gateways behind NATs to each other: this one, or a peer."""
    queue_bytes: int = 1_000_000
    """Limit of each path group's queue, bytes."""
    peers: tuple[Peer, ...]
    placement: Annotated[Placement, omit(Placement.FLOW_HASH)] = Placement.FLOW_HASH
    """How flows are placed on the path groups of a peer."""
    max_rate_bps: Annotated[MaxRate, omit(MaxRate())] = MaxRate()
    """Most that this branch sends of each type of traffic."""
    switch: Annotated[Switch | None, OMIT_NONE] = None
    """None for plain routing."""
    classifier: Annotated[Classifier | None, OMIT_NONE] = None
    """None if all traffic to peers is of Type II."""
    wan: Annotated[Wan | None, OMIT_NONE] = None
    """None if what arrives from the WAN is not filtered."""

    @property
    def tls(self) -> Tls | None:
        """Certificates of its transport, if it is encrypted."""
        return None if isinstance(self.transport, IpipTransport) else self.transport.tls

    def needs(self) -> frozenset[Need]:
        """Give what a machine needs to run it."""
        found: set[Need] = {"hawserd", "tun"}
        if isinstance(self.transport, MptcpTransport):
            found.add("mptcp")
        if isinstance(self.transport, QuicTransport) and self.transport.tcp_proxy:
            found.add("tproxy")
        return frozenset(found)
