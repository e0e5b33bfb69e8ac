"""Conditions of rules: which packets they match."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Annotated, Literal

from pydantic import Field

from hawser.spec.model import Model

Ports = tuple[Annotated[int, Field(ge=0, le=65_535)], Annotated[int, Field(ge=0, le=65_535)]]
"""First and last port of a range."""

PROTOCOLS = {"icmp": 1, "tcp": 6, "udp": 17}
"""Protocols above IP by name, with their numbers."""

RULES = 256
"""Most rules of a classifier."""


class Match(Model):
    """Properties of packets; a property that is left out matches all."""

    source: IPv4Network | None = None
    """Source addresses."""
    destination: IPv4Network | None = None
    """Destination addresses."""
    protocol: Literal["tcp", "udp", "icmp"] | None = None
    """Protocol above IP."""
    source_ports: Ports | None = None
    """Source ports of TCP or UDP, the first and the last."""
    destination_ports: Ports | None = None
    """Destination ports of TCP or UDP, the first and the last."""
    dscp: Annotated[int, Field(ge=0, le=63)] | None = None
    """Differentiated services code point."""

    def turned(self) -> Match:
        """Give the match for the reverse direction."""
        return Match(
            source=self.destination,
            destination=self.source,
            protocol=self.protocol,
            source_ports=self.destination_ports,
            destination_ports=self.source_ports,
            dscp=self.dscp,
        )
