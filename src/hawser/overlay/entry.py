"""Flow entries of a switch, as they stand in a gateway's configuration."""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import Annotated, Literal

from pydantic import Field

from hawser.spec.model import Model

Port = Annotated[int, Field(ge=0, le=0xFFFF)]


class Match(Model):
    """What a packet must be, exactly. One of the two ports is given: where the label is."""

    origin: Annotated[Literal["agent", "wan"], Field(alias="from")]
    """Whether this gateway's own stack sent it, or it came in at a WAN port."""
    source: IPv4Address
    """Its outer source address."""
    destination: IPv4Address
    """Its outer destination address."""
    source_port: Port | None = None
    """In the return direction."""
    destination_port: Port | None = None
    """In the forward direction."""


class Write(Model):
    """What is written into a packet."""

    source: IPv4Address
    """Its new outer source address."""
    destination: IPv4Address
    """Its new outer destination address."""
    port: Port
    """In place of the port that was matched."""


class Output(Model):
    """The WAN port by which a packet leaves."""

    port: str
    """Name of the port."""
    traffic_class: Annotated[int | None, Field(alias="class")] = None
    """HTB class of the port's shaper (`skb->priority`); None where the port has none."""


class Entry(Model):
    """One flow entry (004 section III.D). It holds for TCP and UDP alike."""

    name: str
    """Path, direction and place: `b1>b2 g4 m1 forward source`."""
    match: Match
    write: Write
    output: Output | Literal["agent"]
    """`agent`: to this gateway's own stack."""


class SwitchPort(Model):
    """A WAN port of a switch."""

    name: str
    interface: str
    address: IPv4Address
    next_hop: IPv4Address
    type: Literal["internet", "leased"]


class SwitchConfig(Model):
    """All of one gateway's switch."""

    kind: Literal["bpf", "openflow"]
    ports: tuple[SwitchPort, ...]
    entries: tuple[Entry, ...]
