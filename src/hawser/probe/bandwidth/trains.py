"""Sends trains from one node to another with `hawserd load`, and reads what came."""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path, PurePosixPath

import numpy as np

from hawser.node.base import Node
from hawser.overlay.config.load import (
    Addresses,
    Backend,
    Capture,
    Ethernet,
    FixedSize,
    FrameRate,
    Frames,
    LoadConfig,
    Port,
    Ports,
    Receive,
    Send,
    Stream,
    StreamFlows,
    Streams,
)
from hawser.probe.bandwidth.capture import BODY, FILL, arrivals, frames
from hawser.probe.base import Context, ProbeError
from hawser.probe.endpoint import endpoints
from hawser.probe.load import daemon
from hawser.probe.load.daemon import LoadResult
from hawser.probe.load.port import SendingPort, receiving_interface, sending_port
from hawser.spec.measurement import Between
from hawser.stats.bandwidth import Arrivals, Train

Address = IPv4Address | IPv6Address

_RUNS = 1 << 16
_DRAIN_S = 0.3
"""Wait after a train for what is still in queues."""
_SLACK_S = 30.0
_STREAMS = {BODY: "body", FILL: "fill"}
_PORT = 10_500
"""UDP port of the body; the fill has the next one."""
_SNAP_LENGTH: dict[Backend, int] = {"xdp": 96, "packet": 2048}
"""Bytes captured of each frame: all headers and the payload; packet sockets keep whole frames."""
_CATCH_UP_US = 2_000
"""Frames later than this are not sent: sent at once they would be a burst of their own."""
_STEP_S = 0.0005
"""Difference of the offset of a capture's clock from that of the first one that is corrected."""


@dataclass(frozen=True)
class Route:
    """Where trains go."""

    source: Node
    target: Node
    port: SendingPort
    interface: str
    """That receives."""
    addresses: tuple[Address, Address]


def route(context: Context, between: Between) -> Route:
    """Find the ports between the ends of a measurement.

    Raises:
        ProbeError: there is no route to the target.
    """
    source, target = endpoints(context.lab, between)
    addresses = ip_address(source.address), ip_address(target.address)
    return Route(
        source=source.node,
        target=target.node,
        port=sending_port(source.node, *addresses),
        interface=receiving_interface(target.node, addresses[1]),
        addresses=addresses,
    )


class Sender:
    """Sends one train after another.

    They leave by packet sockets, so that they pass the port's shaper, and are received by XDP,
    whose timestamps do not wait for a process to run; by a packet socket where there is no XDP.
    """

    def __init__(
        self, way: Route, hawserd: Path, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._way = way
        self._hawserd = hawserd
        self._sleep = sleep
        self._run = int.from_bytes(os.urandom(2))
        self._name = f"trains-{secrets.token_hex(3)}"
        self._backend: Backend = "xdp"
        self._offset_s: float | None = None

    def send(self, train: Train) -> Arrivals:
        """Send a train.

        Raises:
            ProbeError: a daemon failed, or hardly anything came.
        """
        try:
            return self._sent(train)
        except ProbeError:
            if self._backend == "packet" or self._offset_s is not None:
                raise
            self._backend = "packet"
            return self._sent(train)

    def _sent(self, train: Train) -> Arrivals:
        self._run = (self._run + 1) % _RUNS
        way, folder = self._way, self._way.target.directory
        file = folder / f"{self._name}.pcap"
        meter = self._meter(PurePosixPath(folder, f"{self._name}.sock"), PurePosixPath(file))
        with daemon.running(self._start(way.target, "meter"), meter, self._sleep) as finish:
            config = self._sending(train)
            sent = daemon.run(self._start(way.source, "sender"), config, train.seconds + _SLACK_S)
            self._sleep(_DRAIN_S)
            received = finish()
        try:
            content = way.target.get(file)
        finally:
            with contextlib.suppress(Exception):
                way.target.run(["rm", "-f", str(file)], timeout=_SLACK_S, check=False)
        return self._arrivals(train, content, sent, received)

    def _arrivals(
        self, train: Train, content: bytes, sent: LoadResult, received: LoadResult
    ) -> Arrivals:
        if sent.sent is None or received.received is None:
            raise ProbeError("hawserd load gave half a result")
        if received.received.uncaptured:
            raise ProbeError(f"{received.received.uncaptured} frames came that were not captured")
        counts = [stream.frames for stream in sent.sent.streams]
        if len(counts) != len(_STREAMS):
            raise ProbeError("hawserd load did not say what it sent of each stream")
        found = arrivals(train, frames(content, self._run), dict(enumerate(counts)))
        return self._aligned(found, received.received.streams[BODY].delay.p50_ns)

    def _aligned(self, found: Arrivals, median_ns: int | None) -> Arrivals:
        """Correct the step between the clocks of two captures.

        Each file has an offset of its own from the monotonic clock, wrong by as long as its process
        waited for the CPU when it took it. The meter's delays do not have it.
        """
        if median_ns is None:
            return found
        delays = found.delays()[found.came]
        offset = float(np.median(delays)) - median_ns / 1e9
        if self._offset_s is None:
            self._offset_s = offset
        step = offset - self._offset_s
        if abs(step) < max(_STEP_S, 0.01 * median_ns / 1e9):
            return found
        return replace(found, received=found.received - step)

    def _start(self, node: Node, part: str) -> daemon.Start:
        return daemon.Start(node, self._hawserd, f"{self._name}-{part}")

    def _meter(self, control: PurePosixPath, file: PurePosixPath) -> LoadConfig:
        receive = Receive(
            port=Port(interface=self._way.interface),
            backend=self._backend,
            streams=tuple(StreamFlows(name=name, flows=1) for name in _STREAMS.values()),
            capture=Capture(file=file, snap_length=_SNAP_LENGTH[self._backend]),
        )
        return LoadConfig(run=self._run, control=control, receive=receive)

    def _sending(self, train: Train) -> LoadConfig:
        streams = (
            self._stream(train, BODY, train.rate, train.frames),
            self._stream(train, FILL, train.fill_rate, train.fill_frames),
        )
        send = Send(
            port=Port(interface=self._way.port.interface),
            backend="packet",
            catch_up_us=_CATCH_UP_US,
            traffic=Streams(streams=streams),
        )
        return LoadConfig(run=self._run, drain_ms=0, send=send)

    def _stream(self, train: Train, flow: int, rate: float, count: int) -> Stream:
        source, target = self._way.addresses
        return Stream(
            name=_STREAMS[flow],
            ethernet=Ethernet(destination=self._way.port.next_hop),
            source=Addresses(first=source),
            target=Addresses(first=target),
            source_port=Ports(first=_PORT),
            target_port=Ports(first=_PORT + flow),
            sizes=FixedSize(fixed=train.size),
            rate=FrameRate(frames_per_s=rate / (8 * train.size)),
            amount=Frames(frames=count),
        )
