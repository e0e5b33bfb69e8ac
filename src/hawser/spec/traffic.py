"""What a load generator sends: flows and sizes."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from hawser.spec.model import Model
from hawser.spec.units import Size

RFC2544_SIZES = (64, 128, 256, 512, 1024, 1280, 1518)
"""Frame sizes for Ethernet with frame check sequence, bytes (RFC 2544 section 9.1)."""

RFC5180_SIZES = (84, 128, 256, 512, 1024, 1280, 1518)
"""The same for IPv6: RFC 5180 section 5.1 allows a larger least one where the tester needs it; its
header and the accounting of each frame take 84 bytes."""

Count = Annotated[int, Field(ge=1, le=65_536)]
Port = Annotated[int, Field(ge=1, le=65_535)]


class Addresses(Model):
    """Consecutive addresses; flow i takes the i-th, in a circle."""

    first: IPv4Address | IPv6Address
    """The first of them."""
    count: Count = 1
    """How many there are."""


class Ports(Model):
    """Consecutive UDP ports; flow i takes the i-th, in a circle."""

    first: Port
    """The first of them."""
    count: Count = 1
    """How many there are."""


class Flows(Model):
    """The flows of a load; frames take them in turn."""

    count: Count = 1
    """How many there are."""
    source: Addresses | None = None
    """Source addresses; the one of `from` where left out."""
    target: Addresses | None = None
    """Destination addresses; the one of `to` where left out. The node of `to` takes them on."""
    source_port: Ports = Ports(first=10_000, count=50_000)
    """UDP source ports."""
    target_port: Ports = Ports(first=10_500)
    """UDP destination ports."""


Genome = Annotated[str, StringConstraints(pattern=r"^[a-jz]{1,4096}$")]
"""Letters of RFC 6985, bytes: a 64, b 128, c 256, d 512, e 1024, f 1280, g 1518, h 2112, i 9000,
j 16000; z is the MTU's frame. Frames must fit into the link's MTU, and into 3200 bytes."""


class Share(Model):
    """A size and how often it comes."""

    size: Size
    """Bytes."""
    weight: Annotated[int, Field(ge=1, le=10_000)]
    """In proportion to the other sizes."""


class Sizes(Model):
    """Frame sizes: one of the three forms."""

    fixed: Size | None = None
    """All frames have this size."""
    imix: Genome | None = None
    """Sizes in turn by the letters of RFC 6985, with frame check sequence."""
    mix: Annotated[tuple[Share, ...], Field(min_length=1, max_length=256)] | None = None
    """Sizes with weights, spread evenly."""

    @model_validator(mode="after")
    def _one_form(self) -> Sizes:
        given = [name for name in ("fixed", "imix", "mix") if getattr(self, name) is not None]
        if len(given) != 1:
            said = " and ".join(given) or "nothing"
            raise ValueError(f"found {said}, expected one of fixed, imix, mix")
        return self


Counted = Literal["frame", "fcs", "ip"]
"""What sizes and rates count: the frame as software sees it, the frame with its frame check
sequence (RFC 2544), or the IP packet inside."""

Backend = Literal["auto", "xdp", "packet", "udp"]
"""How frames meet the wire: XDP, packet sockets, UDP sockets; `auto` takes XDP where it works."""
