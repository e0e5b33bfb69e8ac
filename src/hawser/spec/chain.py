"""Service function chains (RFC 7665): functions, and the order in which packets pass them."""

from __future__ import annotations

import re
from enum import StrEnum
from ipaddress import IPv4Network
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from hawser.spec.match import Match
from hawser.spec.model import Model, Name
from hawser.spec.units import Duration

MAX_FUNCTIONS = 64
"""Instances of functions in one workflow."""

MAX_LENGTH = 64
"""Functions in one chain."""

MAX_INSTANCES = 16
"""Instances of one function."""

MAX_QUEUES = 64
"""Queues of the port of one function."""

LEAST_LINK_MTU_IPV6 = 1280
"""Of links that carry IPv6 (RFC 8200 section 5), bytes."""


PLACE = re.compile(r"@([a-z][a-z0-9-]{0,30}(?:\.[a-z][a-z0-9-]{0,14})?)@")
"""Placeholder for the address of a node or port, in commands and files of programs."""


class FunctionKind(StrEnum):
    """What a function does to packets."""

    FORWARDER = "forwarder"
    """Forwards them."""
    FIREWALL = "firewall"
    """Forwards those that its rules allow."""
    IDS = "ids"
    """Forwards them, and has a firewall block malicious flows."""
    PROXY = "proxy"
    """An SFC-unaware program, or what it configures in its kernel, behind an SFC proxy."""
    ROUTER = "router"
    """The kernel's forwarding, behind an SFC proxy."""
    IPSEC = "ipsec"
    """One end of an ESP tunnel; its peer is the other."""

    @property
    def sfc_unaware(self) -> bool:
        """Whether it receives packets without chain headers (RFC 7665 section 4.6)."""
        return self in (FunctionKind.PROXY, FunctionKind.ROUTER, FunctionKind.IPSEC)


class Proxy(StrEnum):
    """SR proxy of an SR-unaware function.

    See draft-ietf-spring-sr-service-programming, section 6.
    """

    STATIC = "static"
    """End.AS: removes the headers and adds those configured for the chain."""
    DYNAMIC = "dynamic"
    """End.AD: removes the headers and adds those that it saw last."""
    MASQUERADING = "masquerading"
    """End.AM: keeps the headers; the function sees the last segment as destination."""


class Encapsulation(StrEnum):
    """How a chain's segments are added to its packets (RFC 8986 section 5).

    H.Insert is from draft-filsfils-spring-srv6-net-pgm-insertion.
    """

    WHOLE = "encap"
    """H.Encaps: a header with all segments."""
    REDUCED = "encap.red"
    """H.Encaps.Red: without the first segment, which is the destination address."""
    INSERTED = "insert"
    """H.Insert: after the header of IPv6 packets; IPv4 packets as with `encap`."""


class FunctionSegment(StrEnum):
    """Behavior of a function's segment (RFC 8986 section 4)."""

    END = "End"
    """The segment is at the function, which forwards packets to the next segment."""
    CROSS_CONNECT = "End.X"
    """The segment is at the node, which forwards packets to the function."""


class LastSegment(StrEnum):
    """Behavior of the last segment, which decapsulates packets (RFC 8986 section 4)."""

    CROSS_CONNECT = "End.DX"
    """End.DX4 and End.DX6: packets then follow the node's routes."""
    TABLE = "End.DT"
    """End.DT4 and End.DT6: packets then follow a routing table of the chain."""
    ONE_TABLE = "End.DT46"
    """End.DT46: the same with one segment for both address families."""


class Action(StrEnum):
    """What a firewall does with a packet."""

    ALLOW = "allow"
    DENY = "deny"


class BlockScope(StrEnum):
    """What a block of a malicious flow covers."""

    FLOW = "flow"
    """The flow alone."""
    PAIR = "pair"
    """All packets from its source to its destination."""
    SOURCE = "source"
    """All packets from its source."""


class Evidence(Model):
    """What a block needs: one flow, or one short record, may be a false alarm."""

    flows: Annotated[int, Field(ge=1, le=100)] = 5
    """Different malicious flows of a source or pair; until then each is blocked alone."""
    within: Duration = Duration(10)
    """Time in which they are found, 1 s to 1 h."""
    records: Annotated[int, Field(ge=1, le=100)] = 2
    """Malicious records of a flow, in the same time, after which it is blocked alone."""
    packets: Annotated[int, Field(ge=1, le=1_000_000)] = 8
    """Or one malicious record of so many packets."""


class Detection(Model):
    """How an intrusion detection sensor judges flows, and what it does about malicious ones."""

    model: Annotated[str, Field(min_length=1)] | None = None
    """File of the model beside the workflow, as `hawser ids train` writes it. Without one, flows
    are only recorded."""
    firewall: Name | None = None
    """The firewall at the same node, with `rest`, that blocks malicious flows. Without one, blocks
    are only reported."""
    scope: BlockScope = BlockScope.SOURCE
    """What a block covers."""
    evidence: Evidence = Evidence()
    """What a block needs."""
    lifetime: Duration = Duration(300)
    """Time for which a block holds, renewed while a flood goes on."""
    per_minute: Annotated[int, Field(ge=0, le=6000)] = 60
    """Blocks in a minute at most."""
    allow: Annotated[tuple[IPv4Network, ...], Field(max_length=65_536)] = ()
    """Prefixes of sources that are never blocked."""


class FirewallRule(Match):
    """A rule of a firewall; it matches packets that have all its properties."""

    action: Action
    """What happens to matching packets."""


class RouteAction(StrEnum):
    """What a router does with the packets of a route."""

    FORWARD = "forward"
    """Forwards them."""
    DROP = "drop"
    """Drops them silently."""
    UNREACHABLE = "unreachable"
    """Drops them and sends ICMP destination unreachable (no route)."""
    PROHIBIT = "prohibit"
    """Drops them and sends ICMP destination unreachable (prohibited)."""


class FunctionRoute(Model):
    """A route of a router. Of several that match, the longest prefix decides."""

    to: IPv4Network
    """Destination."""
    action: RouteAction = RouteAction.FORWARD
    """What happens to packets for this destination."""


Word = Annotated[str, Field(min_length=1, max_length=4096)]
Command = Annotated[tuple[Word, ...], Field(max_length=256)]
FileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]


class Function(Model):
    """A service function at a node."""

    kind: FunctionKind
    """What it does."""
    node: Name
    """The node that it is connected to. It runs in a namespace of its own."""
    instances: Annotated[int, Field(ge=1, le=MAX_INSTANCES)] = 1
    """Number of instances. All packets of a flow pass the same one."""
    cpu: Annotated[float, Field(ge=0.01, le=1024)] | None = None
    """CPU cores that the programs of an instance may use, like `cpu` of a node."""
    queues: Annotated[int, Field(ge=1, le=MAX_QUEUES)] = 1
    """Queues of its port: the number of cores that can process its packets at the same time."""
    rules: Annotated[tuple[FirewallRule, ...], Field(max_length=100_000)] = ()
    """Rules of a firewall; the first that matches decides."""
    otherwise: Action | None = None
    """What a firewall does with packets that match no rule. Default: `allow`."""
    stateful: bool = False
    """Whether a firewall lets replies to allowed flows pass."""
    rest: Annotated[int, Field(ge=1, le=65535)] | None = None
    """TCP port at which the rules of a firewall can be set over HTTPS, with the lab's certificates
    and a token. Without it, only through its control socket."""
    detection: Detection | None = None
    """How an ids judges flows. Default: it only records them."""
    proxy: Proxy | None = None
    """With `srv6`, the SR proxy of a function that does not support it. Without a proxy the
    function is itself a segment."""
    command: Command = ()
    """Program of a proxy, with its arguments. It must stay in the foreground; if it ends, the chain
    fails (see `fail`), and it is restarted. Without a program, `setup` configures the function."""
    setup: Annotated[tuple[Command, ...], Field(max_length=16)] = ()
    """Commands of a proxy that run before its program starts."""
    files: Annotated[
        dict[FileName, Annotated[str, Field(max_length=1 << 16)]], Field(max_length=16)
    ] = {}
    """Files of a proxy by name, in the directory in which its commands run. In files and commands
    `@NODE@` and `@NODE.PORT@` are replaced by addresses of the lab."""
    routes: Annotated[tuple[FunctionRoute, ...], Field(max_length=1024)] = ()
    """Routes of a router; packets without a route are forwarded."""
    peer: Name | None = None
    """The function at the other end of an ipsec function's tunnel, next to it in each chain."""

    @property
    def runs(self) -> bool:
        """Whether it has a program, which may end."""
        if self.kind is FunctionKind.PROXY:
            return bool(self.command)
        return self.kind is not FunctionKind.ROUTER


def instances(name: str, function: Function) -> tuple[str, ...]:
    """Give the names of a function's instances, which are also their nodes' names."""
    if function.instances == 1:
        return (name,)
    return tuple(f"{name}-{number}" for number in range(1, function.instances + 1))


def proxy_name(instance: str) -> str:
    """Give the name of a function's proxy, which is also its node's name."""
    return f"{instance}-proxy"


class Steering(StrEnum):
    """How packets are steered along a chain."""

    NSH = "nsh"
    """By the network service header (RFC 8300), with forwarders in eBPF."""
    SRV6 = "srv6"
    """By segment routing over IPv6 (RFC 8754, RFC 8986) in the kernel."""
    ROUTES = "routes"
    """By routes that depend on the incoming interface, in the kernel."""


class Srv6(Model):
    """How segment routing steers a chain."""

    mode: Encapsulation = Encapsulation.WHOLE
    """How segments are added to packets."""
    ipv6: bool = False
    """Whether the chain's ends also have IPv6 addresses and their IPv6 packets pass the chain."""
    function: FunctionSegment = FunctionSegment.END
    """Behavior of the functions' segments; a function behind a proxy has the proxy's."""
    last: LastSegment = LastSegment.CROSS_CONNECT
    """Behavior of the last segment; all but `End.DX` need a kernel with VRF devices."""


class Chain(Model):
    """An ordered list of functions that packets between two nodes pass."""

    source: Annotated[Name, Field(alias="from")]
    """Node that sends the packets. The next node on their path classifies them."""
    target: Annotated[Name, Field(alias="to")]
    """Node that receives the packets."""
    functions: Annotated[tuple[Name, ...], Field(min_length=1, max_length=MAX_LENGTH)]
    """Functions that the packets pass, in this order."""
    steering: Steering = Steering.NSH
    """How the packets are steered."""
    srv6: Srv6 | None = None
    """Settings of `steering: srv6`. Default: `encap`."""
    match: Match = Match()
    """Which packets pass the chain. Default: all between the two nodes."""
    symmetric: bool = True
    """Whether the reverse direction passes the same functions in reverse order, or none."""
    fail: Literal["closed", "open"] = "closed"
    """What happens to packets while a function has no running instance: `closed` drops them, `open`
    bypasses the chain."""

    @property
    def carries_ipv6(self) -> bool:
        """Whether IPv6 packets pass it, too."""
        return self.srv6 is not None and self.srv6.ipv6

    @property
    def segments(self) -> Srv6:
        """Its settings of segment routing."""
        return self.srv6 or Srv6()

    @property
    def encapsulation(self) -> Encapsulation:
        """How segment routing adds segments to its packets."""
        return self.segments.mode
