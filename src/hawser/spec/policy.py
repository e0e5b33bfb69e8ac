"""What an operator wants of traffic: applications by address, and the lines that classes use.

    applications:
      voice: {addresses: [10.9.0.0/24], protocol: udp}
    policy:
      I: {applications: [voice], labels: [fibre], otherwise: any}

What gateways cannot enforce is refused (`spec.check.policy`): a policy that is only written down
would be worse than none.
"""

from __future__ import annotations

from enum import StrEnum
from ipaddress import IPv4Network
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from hawser.spec.match import Ports
from hawser.spec.model import Model, Name
from hawser.spec.units import Duration, Rate, Ratio

ApplicationName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,15}$")]
DnsName = Annotated[
    str,
    StringConstraints(
        pattern=r"^(\*\.)?[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)+$",
        max_length=253,
    ),
]


class Application(Model):
    """Traffic to and from some addresses."""

    addresses: Annotated[tuple[IPv4Network, ...], Field(max_length=128)] = ()
    """Where its servers are."""
    names: Annotated[tuple[DnsName, ...], Field(max_length=128)] = ()
    """DNS names of its servers, which the controller resolves."""
    protocol: Literal["tcp", "udp", "icmp"] | None = None
    """Protocol above IP; any if left out."""
    ports: Ports | None = None
    """Ports of its servers, the first and the last."""


class Otherwise(StrEnum):
    """What happens to a class when none of the paths that it may use works."""

    ANY = "any"
    """It uses any other path that works."""
    DROP = "drop"
    """It is queued, then dropped, until one does."""


class Sla(Model):
    """What a path has to offer to a class (docs/design/sla.md)."""

    rate: Rate | None = None
    """Least rate."""
    delay: Duration | None = None
    """Greatest one-way delay, taken as half of the round-trip time."""
    jitter: Duration | None = None
    """Greatest variation of the round-trip time."""
    loss: Ratio | None = None
    """Greatest share of lost packets."""
    margin: Ratio = Ratio(0.1)
    """By how much a path has to be better than that before it is used again."""
    leave_after: Duration = Duration(2)
    """For how long a path has to be worse before it is left."""
    enter_after: Duration = Duration(10)
    """For how long it has to be better before it is used again. Doubled, up to 16 times, when it is
    left again within a minute."""


class ClassPolicy(Model):
    """What a class of traffic is, and how it is carried."""

    applications: Annotated[tuple[ApplicationName, ...], Field(max_length=64)] = ()
    """Applications that are of this class, after the rules of `overlay.classes`."""
    labels: Annotated[tuple[Name, ...], Field(max_length=16)] = ()
    """Labels of ports. The class uses the direct paths between ports that all have one of these, as
    long as one of these paths works. Without any, it uses all paths."""
    sla: Sla | None = None
    """What a path has to offer. A path that does not is used only if none does."""
    otherwise: Otherwise = Otherwise.ANY
    """What happens when none of these paths works and offers that."""
    max_rate: Rate | None = None
    """Most that a branch sends of this class: to all branches together, or to the internet."""
    chain: Annotated[tuple[Name, ...], Field(max_length=16)] = ()
    """Service functions that it passes, at each gateway that has them."""
