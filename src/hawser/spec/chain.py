"""Service function chains (RFC 7665): functions, and the order in which packets pass them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from hawser.spec.match import Match
from hawser.spec.model import Model, Name

MAX_FUNCTIONS = 64
"""Functions of one workflow, instances counted."""

MAX_LENGTH = 64
"""Functions that one chain leads through."""

MAX_INSTANCES = 16
"""Instances of one function."""


class FunctionKind(StrEnum):
    """What a function does to packets."""

    FORWARDER = "forwarder"
    """Nothing but passing them on."""
    FIREWALL = "firewall"
    """Lets pass what its rules allow."""


class Action(StrEnum):
    """What happens to a packet at a firewall."""

    ALLOW = "allow"
    DENY = "deny"


class FirewallRule(Match):
    """A firewall's rule: what happens to packets that fit all that it says."""

    action: Action
    """What happens to them."""


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
    rules: Annotated[tuple[FirewallRule, ...], Field(max_length=100_000)] = ()
    """Of a firewall: the first that fits decides."""
    otherwise: Action | None = None
    """Of a firewall: what happens to packets that no rule fits; `allow` if left out."""
    stateful: bool = False
    """Of a firewall: whoever was allowed to begin a flow gets its answers."""


class Steering(StrEnum):
    """What leads packets along a chain."""

    NSH = "nsh"
    """The network service header (RFC 8300), by forwarders in eBPF."""
    SRV6 = "srv6"
    """Segment routing over IPv6 (RFC 8754, RFC 8986), by the kernel."""
    ROUTES = "routes"
    """Routes that look at where a packet comes from, by the kernel."""


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
    match: Match = Match()
    """Which packets; all from the one node to the other if left out."""
    symmetric: bool = True
    """Whether answers pass the same functions, in the opposite order; else they go straight."""
    fail: Literal["closed", "open"] = "closed"
    """What becomes of packets while a function has no running instance: dropped, or led straight.
    """
