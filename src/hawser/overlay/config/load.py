"""Configuration of `hawserd load`, generator and meter (schemas/load-config.schema.json)."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address
from typing import Annotated, Literal

from pydantic import Field

from hawser.overlay.config.base import (
    OMIT_EMPTY,
    OMIT_NONE,
    Configuration,
    Mac,
    Need,
    Part,
    Place,
    Port16,
    omit,
)

Address = IPv4Address | IPv6Address
Backend = Literal["xdp", "packet", "udp"]


class Port(Part):
    """An interface, in a network namespace of its own or in the daemon's."""

    interface: str
    netns: Annotated[str | None, OMIT_NONE] = None


class Vlan(Part):
    """An IEEE 802.1Q tag."""

    id: int
    priority: Annotated[int, omit(0)] = 0
    service: Annotated[bool, omit(value=False)] = False
    """Whether it is an IEEE 802.1ad service tag."""


class Ethernet(Part):
    """An Ethernet header."""

    source: Annotated[Mac | None, OMIT_NONE] = None
    """The interface's own if None."""
    destination: Mac
    tags: Annotated[tuple[Vlan, ...], OMIT_EMPTY] = ()


class InnerEthernet(Part):
    """The Ethernet header inside a tunnel."""

    source: Mac
    destination: Mac


class Srv6(Part):
    """A segment list around the packets (RFC 8986 section 5.1, H.Encaps)."""

    source: IPv6Address
    segments: tuple[IPv6Address, ...]


class Vxlan(Part):
    """A VXLAN header around the frames (RFC 7348)."""

    source: Address
    target: Address
    vni: int
    ethernet: InnerEthernet


class Nsh(Part):
    """A place on a service path (RFC 8300)."""

    spi: int
    si: int


class Srv6Outer(Part):
    """Segment routing around the packets."""

    srv6: Srv6


class VxlanOuter(Part):
    """VXLAN around the frames."""

    vxlan: Vxlan


class NshOuter(Part):
    """A network service header behind the Ethernet header."""

    nsh: Nsh


class Addresses(Part):
    """Consecutive addresses."""

    first: Address
    count: int = 1


class Ports(Part):
    """Consecutive UDP ports."""

    first: Port16
    count: int = 1


class FixedSize(Part):
    """All frames alike."""

    fixed: int


class Imix(Part):
    """An IMIX genome (RFC 6985)."""

    genome: str
    custom: Annotated[Mapping[str, int], OMIT_EMPTY] = {}
    """Sizes of capital letters."""
    z: Annotated[int, omit(1518)] = 1518
    """Size of the letter `z`."""


class ImixSize(Part):
    """A repeated sequence of sizes."""

    imix: Imix


class Weight(Part):
    """A size and how often it comes."""

    size: int
    weight: int


class WeightedSize(Part):
    """Sizes with weights, spread evenly."""

    weighted: tuple[Weight, ...]


class FrameRate(Part):
    """Frames a second, evenly spaced."""

    frames_per_s: float


class BitRate(Part):
    """Bits a second of what is counted, evenly spaced."""

    bits_per_s: float


class Ramp(Part):
    """A rate that changes evenly, in frames a second."""

    from_: Annotated[float, Field(alias="from")]
    to: float


class RampRate(Part):
    """From one rate to another over the duration."""

    ramp: Ramp


Rate = FrameRate | BitRate | RampRate | Literal["max"]


class Frames(Part):
    """How many frames."""

    frames: int


class Seconds(Part):
    """For how long."""

    seconds: float


class Stream(Part):
    """Frames that are alike but for their flow."""

    name: str
    ethernet: Ethernet
    outer: Annotated[Srv6Outer | VxlanOuter | NshOuter | None, OMIT_NONE] = None
    """A header around the packets."""
    source: Addresses
    target: Addresses
    source_port: Ports
    target_port: Ports
    dscp: int = 0
    hop_limit: Annotated[int, omit(64)] = 64
    flows: int = 1
    """Frames take them in turn."""
    sizes: FixedSize | ImixSize | WeightedSize
    counted: Literal["frame", "fcs", "ip"] = "frame"
    """What sizes, and rates in bits, count."""
    rate: Rate
    burst: Annotated[int, omit(1)] = 1
    """Frames sent back to back; the rate stays the same."""
    amount: Frames | Seconds


class Streams(Part):
    """Frames that are made."""

    streams: tuple[Stream, ...]


class Recording(Part):
    """Frames of a pcap or pcapng file."""

    file: Place
    times: Annotated[int, omit(1)] = 1
    """How often it is sent."""
    rate: Rate


class Replay(Part):
    """Frames that were recorded."""

    replay: Recording


class Send(Part):
    """The sending side."""

    port: Port
    backend: Backend = "xdp"
    cpu: Annotated[int | None, OMIT_NONE] = None
    """The core that sends."""
    catch_up_us: int = 10_000
    """How late frames may be sent; later ones stay unsent."""
    traffic: Streams | Replay


class StreamFlows(Part):
    """The flows of a stream."""

    name: str
    flows: int


class Capture(Part):
    """Frames into a pcap file."""

    file: Place
    snap_length: Annotated[int, omit(2048)] = 2048
    """Bytes kept of each frame."""


class Receive(Part):
    """The receiving side."""

    port: Port
    backend: Backend = "xdp"
    groups: Annotated[tuple[StreamFlows, ...], OMIT_EMPTY] = ()
    """Those of each stream of the sender, in its order."""
    window_bits: Annotated[int | None, OMIT_NONE] = None
    """How far apart a frame and its copy may be, as a power of two of frames of a flow."""
    ports: Annotated[Ports | None, OMIT_NONE] = None
    """UDP ports to listen on, for the backend `udp`."""
    capture: Annotated[Capture | None, OMIT_NONE] = None


class LoadConfig(Configuration):
    """A generator, a meter, or both."""

    control: Annotated[Place | None, OMIT_NONE] = None
    """Unix socket of the control API."""
    run: int = 0
    """Number that frames carry: those of another run are not counted."""
    send: Annotated[Send | None, OMIT_NONE] = None
    receive: Annotated[Receive | None, OMIT_NONE] = None
    reflect: Annotated[Port | None, OMIT_NONE] = None
    """Send back what comes in here."""
    drain_ms: Annotated[int, omit(200)] = 200
    """Time after the last frame for those under way."""

    def needs(self) -> frozenset[Need]:
        """Give what a machine must have for it."""
        sides = (self.send, self.receive)
        xdp = any(side is not None and side.backend == "xdp" for side in sides)
        return frozenset({"hawserd", "xdp"} if xdp else {"hawserd"})
