"""Builds the configurations of `hawserd load` for a measurement."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from pathlib import PurePosixPath

from hawser.overlay.config.load import Addresses as AddressRange
from hawser.overlay.config.load import (
    Backend,
    Ethernet,
    FixedSize,
    FrameRate,
    Frames,
    Imix,
    ImixSize,
    LoadConfig,
    Port,
    Ports,
    Receive,
    Send,
    Stream,
    StreamFlows,
    Streams,
    Weight,
    WeightedSize,
)
from hawser.spec.measurement import Traffic
from hawser.spec.traffic import Addresses, Flows, Sizes

Address = IPv4Address | IPv6Address

_STREAM = "load"


@dataclass(frozen=True)
class Amount:
    """How much to send and how fast: in frames per second, or as fast as possible."""

    frames: int
    rate: float | None


def stream(
    traffic: Traffic, source: Address, target: Address, next_hop: str, amount: Amount
) -> Stream:
    """The stream that a measurement sends."""
    flows = traffic.flows
    return Stream(
        name=_STREAM,
        ethernet=Ethernet(destination=next_hop),
        source=_addresses(flows.source, source),
        target=_addresses(flows.target, target),
        source_port=_ports(flows, flows.source_port.first, flows.source_port.count),
        target_port=_ports(flows, flows.target_port.first, flows.target_port.count),
        dscp=traffic.dscp,
        flows=flows.count,
        sizes=_sizes(traffic.sizes),
        counted=traffic.counted,
        rate="max" if amount.rate is None else FrameRate(frames_per_s=amount.rate),
        amount=Frames(frames=amount.frames),
    )


def sender(
    traffic: Traffic, run: int, interface: str, backend: Backend, sent: Stream
) -> LoadConfig:
    """Configuration of a daemon that only sends."""
    send = _send(traffic, Port(interface=interface), backend, sent)
    return LoadConfig(run=run, drain_ms=0, send=send)


def receiver(
    traffic: Traffic, run: int, interface: str, backend: Backend, control: PurePosixPath
) -> LoadConfig:
    """Configuration of a daemon that only receives, until it is stopped."""
    port, flows = traffic.flows.target_port, traffic.flows
    receive = Receive(
        port=Port(interface=interface),
        backend=backend,
        streams=_streams(traffic),
        ports=_ports(flows, port.first, port.count) if backend == "udp" else None,
    )
    return LoadConfig(run=run, control=control, receive=receive)


def both(traffic: Traffic, sent: Stream, backend: Backend, ends: tuple[str, str]) -> LoadConfig:
    """Configuration of a daemon that sends from one namespace's port `load` to another's."""
    source, target = (Port(interface="load", netns=end) for end in ends)
    receive = Receive(port=target, backend=backend, streams=_streams(traffic))
    send = _send(traffic, source, backend, sent)
    return LoadConfig(run=0, drain_ms=100, send=send, receive=receive)


def _send(traffic: Traffic, port: Port, backend: Backend, sent: Stream) -> Send:
    return Send(
        port=port,
        backend=backend,
        catch_up_us=max(1, round(traffic.catch_up * 1e6)),
        traffic=Streams(streams=(sent,)),
    )


def _streams(traffic: Traffic) -> tuple[StreamFlows]:
    return (StreamFlows(name=_STREAM, flows=traffic.flows.count),)


def target_addresses(traffic: Traffic, target: Address) -> list[Address]:
    """All destination addresses of the stream."""
    wanted = traffic.flows.target or Addresses(first=target)
    return [wanted.first + i for i in range(min(wanted.count, traffic.flows.count))]


def mean_bits(traffic: Traffic) -> float:
    """Mean counted size in bits. Sizes by RFC 6985 letter include the frame check sequence."""
    sizes = traffic.sizes
    if sizes.fixed is not None:
        return 8 * float(sizes.fixed)
    if sizes.mix is not None:
        weights = sum(share.weight for share in sizes.mix)
        return 8 * sum(share.size * share.weight for share in sizes.mix) / weights
    frames = [_LETTERS[letter] for letter in sizes.imix or ""]
    return 8 * (sum(frames) / len(frames) - _FCS + _from_frame(traffic))


_FCS = 4
_LETTERS = dict(
    zip("abcdefghijz", (64, 128, 256, 512, 1024, 1280, 1518, 2112, 9000, 16_000, 1518), strict=True)
)
"""Frame sizes in bytes by letter (RFC 6985 section 3)."""


def _from_frame(traffic: Traffic) -> int:
    """Bytes to add to a frame's length to get the counted size."""
    return {"frame": 0, "fcs": _FCS, "ip": -14}[traffic.counted]


def _addresses(chosen: Addresses | None, usual: Address) -> AddressRange:
    chosen = chosen or Addresses(first=usual)
    return AddressRange(first=chosen.first, count=chosen.count)


def _ports(flows: Flows, first: int, count: int) -> Ports:
    return Ports(first=first, count=min(count, flows.count))


def _sizes(sizes: Sizes) -> FixedSize | ImixSize | WeightedSize:
    if sizes.fixed is not None:
        return FixedSize(fixed=round(sizes.fixed))
    if sizes.imix is not None:
        return ImixSize(imix=Imix(genome=sizes.imix))
    mix = sizes.mix or ()
    return WeightedSize(weighted=tuple(Weight(size=round(s.size), weight=s.weight) for s in mix))
