"""Configuration of `hawserd load`, generator and meter (schemas/load-config.schema.json)."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address
from typing import Annotated, Literal

from pydantic import Field, model_validator

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
    replace_old_names,
)

Address = IPv4Address | IPv6Address
Backend = Literal["xdp", "packet", "udp"]


class Port(Part):
    """An interface in a network namespace; the daemon's if None."""

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
    """An outer IPv6 header with a segment routing header (RFC 8986 section 5.1, H.Encaps)."""

    source: IPv6Address
    segments: tuple[IPv6Address, ...]


class Vxlan(Part):
    """An outer VXLAN header (RFC 7348)."""

    source: Address
    target: Address
    vni: int
    ethernet: InnerEthernet


class Nsh(Part):
    """The service path header of a network service header (RFC 8300)."""

    spi: int
    si: int


class Srv6Outer(Part):
    """Encapsulation in SRv6."""

    srv6: Srv6


class VxlanOuter(Part):
    """Encapsulation in VXLAN."""

    vxlan: Vxlan


class NshOuter(Part):
    """A network service header behind the Ethernet header."""

    nsh: Nsh


class Addresses(Part):
    """A range of consecutive addresses."""

    first: Address
    count: int = 1


class Ports(Part):
    """A range of consecutive UDP ports."""

    first: Port16
    count: int = 1


class FixedSize(Part):
    """One size for all frames."""

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
    """A size with its weight."""

    size: int
    weight: int


class WeightedSize(Part):
    """Sizes with weights, spread evenly."""

    weighted: tuple[Weight, ...]


class FrameRate(Part):
    """Frames per second, evenly spaced."""

    frames_per_s: float


class BitRate(Part):
    """Bits per second of the counted layer, evenly spaced."""

    bits_per_s: float


class Ramp(Part):
    """A rate that changes linearly, in frames per second."""

    from_: Annotated[float, Field(alias="from")]
    to: float


class RampRate(Part):
    """From one rate to another over the duration."""

    ramp: Ramp


Rate = FrameRate | BitRate | RampRate | Literal["max"]


class Frames(Part):
    """A number of frames."""

    frames: int


class Seconds(Part):
    """A duration."""

    seconds: float


class Stream(Part):
    """Frames that differ only in their flow."""

    name: str
    ethernet: Ethernet
    outer: Annotated[Srv6Outer | VxlanOuter | NshOuter | None, OMIT_NONE] = None
    """Outer header."""
    source: Addresses
    target: Addresses
    source_port: Ports
    target_port: Ports
    dscp: int = 0
    hop_limit: Annotated[int, omit(64)] = 64
    flows: int = 1
    """Number of flows, which are used in turn."""
    sizes: FixedSize | ImixSize | WeightedSize
    counted: Literal["frame", "fcs", "ip"] = "frame"
    """Layer whose bytes sizes, and rates in bit/s, count."""
    rate: Rate
    burst: Annotated[int, omit(1)] = 1
    """Frames sent back to back. It does not change the rate."""
    amount: Frames | Seconds


class Streams(Part):
    """Generated frames."""

    streams: tuple[Stream, ...]


class Recording(Part):
    """Frames of a pcap or pcapng file."""

    file: Place
    times: Annotated[int, omit(1)] = 1
    """Number of repetitions."""
    rate: Rate


class Replay(Part):
    """Frames of a recording."""

    replay: Recording


class Send(Part):
    """Sender."""

    port: Port
    backend: Backend = "xdp"
    cpu: Annotated[int | None, OMIT_NONE] = None
    """CPU to which the sender is pinned."""
    catch_up_us: int = 10_000
    """Frames that are later than this are skipped and counted as unsent, microseconds."""
    traffic: Streams | Replay


class StreamFlows(Part):
    """A stream and its flows."""

    name: str
    flows: int


class Capture(Part):
    """A pcap file of received frames."""

    file: Place
    snap_length: Annotated[int, omit(2048)] = 2048
    """Bytes captured of each frame."""


class Receive(Part):
    """Receiver."""

    port: Port
    backend: Backend = "xdp"
    streams: Annotated[tuple[StreamFlows, ...], OMIT_EMPTY] = ()
    """The sender's streams, in its order."""
    window_bits: Annotated[int | None, OMIT_NONE] = None
    """Window in which duplicates are recognised: frames of a flow, as a power of two."""
    ports: Annotated[Ports | None, OMIT_NONE] = None
    """UDP ports to listen on, for the backend `udp`."""
    capture: Annotated[Capture | None, OMIT_NONE] = None

    @model_validator(mode="before")
    @classmethod
    def _old_names(cls, data: object) -> object:
        return replace_old_names(data, groups="streams")


class LoadConfig(Configuration):
    """A generator, a meter, or both."""

    control: Annotated[Place | None, OMIT_NONE] = None
    """Unix socket of the control API."""
    run: int = 0
    """Number of the run. Frames of another run are not counted."""
    send: Annotated[Send | None, OMIT_NONE] = None
    receive: Annotated[Receive | None, OMIT_NONE] = None
    reflect: Annotated[Port | None, OMIT_NONE] = None
    """Interface at which frames are reflected to their source."""
    drain_ms: Annotated[int, omit(200)] = 200
    """Time between the last frame sent and the reading of the counters, milliseconds."""

    def needs(self) -> frozenset[Need]:
        """Give what a machine must have for it."""
        sides = (self.send, self.receive)
        xdp = any(side is not None and side.backend == "xdp" for side in sides)
        return frozenset({"hawserd", "xdp"} if xdp else {"hawserd"})
