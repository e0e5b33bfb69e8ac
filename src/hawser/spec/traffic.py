"""Traffic of the load generator: flows and frame sizes."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from hawser.spec.model import Model
from hawser.spec.units import Size

RFC2544_SIZES = (64, 128, 256, 512, 1024, 1280, 1518)
"""Frame sizes for Ethernet with frame check sequence, bytes (RFC 2544 section 9.1)."""

RFC5180_SIZES = (84, 128, 256, 512, 1024, 1280, 1518)
"""The same for IPv6. RFC 5180 section 5.1 allows a larger minimum if the tester needs it: headers
and the accounting of each frame take 84 bytes."""

Count = Annotated[int, Field(ge=1, le=65_536)]
Port = Annotated[int, Field(ge=1, le=65_535)]


class Addresses(Model):
    """Consecutive addresses, used by flows in turn."""

    first: IPv4Address | IPv6Address
    """The first one."""
    count: Count = 1
    """Their number."""


class Ports(Model):
    """Consecutive UDP ports, used by flows in turn."""

    first: Port
    """The first one."""
    count: Count = 1
    """Their number."""


class Flows(Model):
    """The flows of a load; frames belong to them in turn."""

    count: Count = 1
    """Their number."""
    source: Addresses | None = None
    """Source addresses. Default: that of `from`."""
    target: Addresses | None = None
    """Destination addresses, which are added to the node of `to`. Default: that of `to`."""
    source_port: Ports = Ports(first=10_000, count=50_000)
    """UDP source ports."""
    target_port: Ports = Ports(first=10_500)
    """UDP destination ports."""


Genome = Annotated[str, StringConstraints(pattern=r"^[a-jz]{1,4096}$")]
"""Letters of RFC 6985, bytes: a 64, b 128, c 256, d 512, e 1024, f 1280, g 1518, h 2112, i 9000,
j 16000; z is the MTU's frame. Frames must fit into the link's MTU, and into 3200 bytes."""


class Share(Model):
    """A size and its weight."""

    size: Size
    """Bytes."""
    weight: Annotated[int, Field(ge=1, le=10_000)]
    """How often it occurs, relative to the weights of other sizes."""


class Sizes(Model):
    """Frame sizes, in one of three forms."""

    fixed: Size | None = None
    """All frames have this size."""
    imix: Genome | None = None
    """Sizes in turn by the letters of RFC 6985, with frame check sequence."""
    mix: Annotated[tuple[Share, ...], Field(min_length=1, max_length=256)] | None = None
    """Sizes with weights, evenly mixed."""

    @model_validator(mode="after")
    def _one_form(self) -> Sizes:
        given = [name for name in ("fixed", "imix", "mix") if getattr(self, name) is not None]
        if len(given) != 1:
            said = " and ".join(given) or "nothing"
            raise ValueError(f"found {said}, expected one of fixed, imix, mix")
        return self


Counted = Literal["frame", "fcs", "ip"]
"""Which bytes sizes and rates count: the frame as software sees it, the frame with its frame check
sequence (RFC 2544), or the IP packet inside."""

Backend = Literal["auto", "xdp", "packet", "udp"]
"""How frames are sent and received: XDP, packet or UDP sockets; `auto` uses XDP if it works."""
