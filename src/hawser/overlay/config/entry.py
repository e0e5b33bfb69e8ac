"""Flow entries of a gateway's switch, of either kind (004 section III.D)."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from hawser.overlay.config.base import Part

Port16 = Annotated[int, Field(ge=1, le=0xFFFF)]
Address = IPv4Address | IPv6Address


class EntryMatch(Part):
    """The exact match of an entry.

    A narrow label is one port of TCP or UDP: the destination port in forward direction, the source
    port in reverse. A wide label is both UDP ports.
    """

    from_: Annotated[Literal["agent", "wan"], Field(alias="from")]
    """Whether packets come from the gateway's own stack or arrive at a WAN port."""
    source: Address
    destination: Address
    source_port: Port16 | None = None
    destination_port: Port16 | None = None

    @model_validator(mode="after")
    def _a_port(self) -> Self:
        if self.source_port is None and self.destination_port is None:
            raise ValueError("expected source_port, destination_port, or both of a wide label")
        return self

    @property
    def wide(self) -> bool:
        """Whether both ports are the label."""
        return self.source_port is not None and self.destination_port is not None


class EntryWrite(Part):
    """The new addresses and port of an entry's packets."""

    source: Address
    destination: Address
    port: Port16 | None = None
    """New value of the matched port; None for wide labels, which stay the same."""


class EntryOutput(Part):
    """The WAN port that sends an entry's packets."""

    port: str
    class_: Annotated[int | None, Field(alias="class", ge=0, le=0xFFFF_FFFF)] = None
    """Class of the port's shaper, as the kernel numbers it (major << 16 | minor)."""


class Entry(Part):
    """One flow entry: exact match, address swap, output. Its addresses are of one version of IP."""

    name: str
    """Path, direction and place: `b1>b2 g4 m1 forward source`."""
    match: EntryMatch
    write: EntryWrite
    output: EntryOutput | Literal["agent"]
    """`agent`: to this gateway's own stack."""

    @model_validator(mode="after")
    def _one_version(self) -> Self:
        version = self.match.source.version
        others = (self.match.destination, self.write.source, self.write.destination)
        for other in others:
            if other.version != version:
                raise ValueError(f"found {other}, expected an IPv{version} address like the source")
        return self

    @model_validator(mode="after")
    def _writes_what_it_matches(self) -> Self:
        if self.match.wide != (self.write.port is None):
            wanted = "none, for a wide label stays" if self.match.wide else "one"
            raise ValueError(f"write.port: found {self.write.port}, expected {wanted}")
        return self
