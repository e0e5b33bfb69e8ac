"""Service function chains (RFC 7665): functions, and the order in which packets pass them."""

from __future__ import annotations

import re
from enum import StrEnum
from ipaddress import IPv4Network
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from hawser.spec.match import Match
from hawser.spec.model import Model, Name

MAX_FUNCTIONS = 64
"""Functions of one workflow, instances counted."""

MAX_LENGTH = 64
"""Functions that one chain leads through."""

MAX_INSTANCES = 16
"""Instances of one function."""

MAX_QUEUES = 64
"""Queues of the port of one function."""


PLACE = re.compile(r"@([a-z][a-z0-9-]{0,30}(?:\.[a-z][a-z0-9-]{0,14})?)@")
"""Stands for the address of a node or port in what a program is given."""


class FunctionKind(StrEnum):
    """What a function does to packets."""

    FORWARDER = "forwarder"
    """Nothing but passing them on."""
    FIREWALL = "firewall"
    """Lets pass what its rules allow."""
    PROXY = "proxy"
    """A program that knows nothing of chains, or what it sets in its kernel, behind a proxy."""
    ROUTER = "router"
    """The kernel's forwarding, behind a proxy."""
    IPSEC = "ipsec"
    """One end of an ESP tunnel, of which its peer is the other."""

    @property
    def sfc_unaware(self) -> bool:
        """Whether packets come to it without what steers them."""
        return self in (FunctionKind.PROXY, FunctionKind.ROUTER, FunctionKind.IPSEC)


class Proxy(StrEnum):
    """What stands in for a function that knows nothing of segment routing.

    See draft-ietf-spring-sr-service-programming, section 6.
    """

    STATIC = "static"
    """End.AS: takes the headers off, and puts those on that follow from the chain."""
    DYNAMIC = "dynamic"
    """End.AD: takes the headers off, and puts those on that it saw last."""
    MASQUERADING = "masquerading"
    """End.AM: leaves the headers; the function sees the last segment as destination."""


class Encapsulation(StrEnum):
    """How a chain's segments are put in front of its packets (RFC 8986 section 5).

    H.Insert is that of draft-filsfils-spring-srv6-net-pgm-insertion.
    """

    WHOLE = "encap"
    """H.Encaps: a header with all segments."""
    REDUCED = "encap.red"
    """H.Encaps.Red: without the first one, which is the destination already."""
    INSERTED = "insert"
    """H.Insert: behind the header that IPv6 packets have; IPv4 packets as with `encap`."""


class FunctionSegment(StrEnum):
    """What a function's segment does (RFC 8986 section 4)."""

    END = "End"
    """The function has it, and sends packets on to the next."""
    CROSS_CONNECT = "End.X"
    """Its node has it, and sends packets to the function, which need not know of segments."""


class LastSegment(StrEnum):
    """What takes the header off behind the last function (RFC 8986 section 4)."""

    CROSS_CONNECT = "End.DX"
    """End.DX4 and End.DX6: packets go on by the node's routes."""
    TABLE = "End.DT"
    """End.DT4 and End.DT6: packets go on by a routing table of their own."""
    ONE_TABLE = "End.DT46"
    """The same, with one segment for both families."""


class Action(StrEnum):
    """What happens to a packet at a firewall."""

    ALLOW = "allow"
    DENY = "deny"


class FirewallRule(Match):
    """A firewall's rule: what happens to packets that fit all that it says."""

    action: Action
    """What happens to them."""


class RouteAction(StrEnum):
    """What a router does with packets that a route is for."""

    FORWARD = "forward"
    """They go on."""
    DROP = "drop"
    """They are dropped, and nobody is told."""
    UNREACHABLE = "unreachable"
    """They are dropped, and the sender is told that there is no way."""
    PROHIBIT = "prohibit"
    """They are dropped, and the sender is told that they may not."""


class FunctionRoute(Model):
    """A route of a router; of several that fit, the one with the longest prefix decides."""

    to: IPv4Network
    """Destination."""
    action: RouteAction = RouteAction.FORWARD
    """What happens to packets that go there."""


Word = Annotated[str, Field(min_length=1, max_length=4096)]
Command = Annotated[tuple[Word, ...], Field(max_length=256)]
FileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]


class Function(Model):
    """A service function, at a node."""

    kind: FunctionKind
    """What it does."""
    node: Name
    """The node that it is joined to. It runs beside it, in a namespace of its own."""
    instances: Annotated[int, Field(ge=1, le=MAX_INSTANCES)] = 1
    """How many there are of it; a flow keeps to one."""
    cpu: Annotated[float, Field(ge=0.01, le=1024)] | None = None
    """Cores that an instance's programs may use, as a node's."""
    queues: Annotated[int, Field(ge=1, le=MAX_QUEUES)] = 1
    """Queues of its port: so many cores can pass packets through it at once, each those that came
    in on it."""
    rules: Annotated[tuple[FirewallRule, ...], Field(max_length=100_000)] = ()
    """Of a firewall: the first that fits decides."""
    otherwise: Action | None = None
    """Of a firewall: what happens to packets that no rule fits; `allow` if left out."""
    stateful: bool = False
    """Of a firewall: whoever was allowed to begin a flow gets its answers."""
    proxy: Proxy | None = None
    """With `srv6`: a function that knows nothing of it, and what stands in for that; left out, the
    function is a segment itself."""
    command: Command = ()
    """Of a proxy: the program and its arguments. It stays in the foreground; if it ends, its chain
    fails as `fail` says, and it is started again. Without one the function is what `setup` left."""
    setup: Annotated[tuple[Command, ...], Field(max_length=16)] = ()
    """Of a proxy: commands that are run to their end before the program is started."""
    files: Annotated[
        dict[FileName, Annotated[str, Field(max_length=1 << 16)]], Field(max_length=16)
    ] = {}
    """Of a proxy: files by name, in the directory in which its commands are run. In files and
    commands `@NODE@` and `@NODE.PORT@` stand for an address of the lab."""
    routes: Annotated[tuple[FunctionRoute, ...], Field(max_length=1024)] = ()
    """Of a router: what it does with packets; it forwards those that no route is for."""
    peer: Name | None = None
    """Of an ipsec function: the one at the other end of its tunnel, next to it in each chain."""

    @property
    def runs(self) -> bool:
        """Whether there is a program of it that may end."""
        if self.kind is FunctionKind.PROXY:
            return bool(self.command)
        return self.kind is not FunctionKind.ROUTER


def instances(name: str, function: Function) -> tuple[str, ...]:
    """Give the names of a function's instances, by which they are nodes of the lab."""
    if function.instances == 1:
        return (name,)
    return tuple(f"{name}-{number}" for number in range(1, function.instances + 1))


def proxy_name(instance: str) -> str:
    """Give the name of what stands in for a function, by which it is a node of the lab."""
    return f"{instance}-proxy"


class Steering(StrEnum):
    """What leads packets along a chain."""

    NSH = "nsh"
    """The network service header (RFC 8300), by forwarders in eBPF."""
    SRV6 = "srv6"
    """Segment routing over IPv6 (RFC 8754, RFC 8986), by the kernel."""
    ROUTES = "routes"
    """Routes that look at where a packet comes from, by the kernel."""


class Srv6(Model):
    """How segment routing leads a chain."""

    mode: Encapsulation = Encapsulation.WHOLE
    """What is put in front of packets."""
    ipv6: bool = False
    """Whether the chain's ends have IPv6 addresses too, and packets between these are led."""
    function: FunctionSegment = FunctionSegment.END
    """What the segments of functions do; one behind a proxy has the proxy's."""
    last: LastSegment = LastSegment.CROSS_CONNECT
    """What takes the header off; all but `End.DX` need a kernel with VRF devices."""


class Chain(Model):
    """An ordered set of functions that packets between two nodes pass."""

    source: Annotated[Name, Field(alias="from")]
    """Node whose packets are led. Its neighbour on the way classifies them."""
    target: Annotated[Name, Field(alias="to")]
    """Node that they go to."""
    functions: Annotated[tuple[Name, ...], Field(min_length=1, max_length=MAX_LENGTH)]
    """What they pass, in this order."""
    steering: Steering = Steering.NSH
    """What leads them."""
    srv6: Srv6 | None = None
    """With `steering: srv6`, how; `encap` if left out."""
    match: Match = Match()
    """Which packets; all from the one node to the other if left out."""
    symmetric: bool = True
    """Whether answers pass the same functions, in the opposite order; else they go straight."""
    fail: Literal["closed", "open"] = "closed"
    """What becomes of packets while a function has no running instance: dropped, or led straight.
    """

    @property
    def carries_ipv6(self) -> bool:
        """Whether it leads IPv6 packets too."""
        return self.srv6 is not None and self.srv6.ipv6

    @property
    def segments(self) -> Srv6:
        """How segment routing leads it."""
        return self.srv6 or Srv6()

    @property
    def encapsulation(self) -> Encapsulation:
        """What segment routing puts in front of its packets."""
        return self.segments.mode
