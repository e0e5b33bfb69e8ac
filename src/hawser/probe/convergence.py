"""How long traffic takes to adapt when something goes down or comes back under it.

What the receiving node got is read 50 times a second while a measurement runs; afterwards, events
and readings together tell failover and reversion times (RFC 6414).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, Self

from hawser.driver.base import Lab
from hawser.node.base import Node, Received
from hawser.probe.base import ProbeError
from hawser.probe.endpoint import endpoints
from hawser.spec.measurement import Iperf3, Protocol
from hawser.spec.topology import Topology
from hawser.stats.capacity import capacity
from hawser.stats.convergence import VALIDATION, Arrivals
from hawser.store.sample import Direction, Sample

_INTERVAL: Final = 0.02
_READINGS: Final = 50_000
"""Of a measurement at most: about 10 MB."""
_UDP_HEADERS: Final = 28
"""Bytes of IPv4 and UDP."""
_LOWEST_OVER: Final = 1.0
_BLIND: Final = 0.15
"""Seconds without a reading, after an event, that make a time wrong by more than people accept.

A window of the rate is 0.05 s; an outage that lies between two readings would not be seen at all.
"""


@dataclass(frozen=True)
class Switched:
    """An element that went down or came back."""

    at: float
    """Seconds of the monotonic clock."""
    element: str
    up: bool


class Convergence:
    """Reads what the receiver of a measurement gets, from `begin` on, while its block runs."""

    def __init__(self, lab: Lab, name: str, measurement: Iperf3, topology: Topology) -> None:
        """Prepare to read.

        Raises:
            ProbeError: the lab has no such node.
        """
        ends = endpoints(lab, measurement)
        self._sender, self._receiver = ends[::-1] if measurement.reverse else ends
        self._name = name
        self._measurement = measurement
        self._topology = topology
        self._reader = _Reader(self._receiver.node, max(_INTERVAL, self._seconds / _READINGS))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.stop()

    @property
    def _seconds(self) -> float:
        return float(self._measurement.warmup) + float(self._measurement.duration)

    def begin(self) -> None:
        """Traffic starts now. Later calls do nothing."""
        self._reader.start()

    def finish(self, switched: Sequence[Switched]) -> tuple[Sample, ...]:
        """Say how long it took after each of the events.

        Raises:
            NodeError: the receiver could not be read.
            ProbeError: it was not read often enough, since the machine was busy.
        """
        self._reader.stop()
        readings = self._reader.found()
        if not readings:
            return ()
        arrivals = Arrivals([(each.at, self._payload(each)) for each in readings])
        start = readings[0].at
        end = min(start + self._seconds, readings[-1].at)
        return tuple(self._samples(arrivals, (start, end), switched))

    def _payload(self, reading: Received) -> float:
        spec = self._measurement
        if spec.protocol is not Protocol.UDP:
            return float(reading.tcp)
        headers = _UDP_HEADERS / (spec.length + _UDP_HEADERS) if spec.length is not None else 0.0
        return reading.ip * (1 - headers)

    def _samples(
        self, arrivals: Arrivals, span: tuple[float, float], switched: Sequence[Switched]
    ) -> Iterator[Sample]:
        start, end = span
        least = arrivals.least(start + float(self._measurement.warmup), end, _LOWEST_OVER)
        if least is not None:
            yield self._sample("goodput_min", "Mbit/s", least / 1e6)
        seen = [each for each in switched if start <= each.at < end]
        times = [start, *(each.at for each in seen), end]
        down: frozenset[str] = frozenset()
        for place, each in enumerate(seen):
            after = down - {each.element} if each.up else down | {each.element}
            before = arrivals.steady(times[place], each.at)
            until = times[place + 2]
            level = max(before * self._share(down, after), arrivals.steady(each.at, until))
            metric = "reversion_time" if each.up else "failover_time"
            took = arrivals.recovery(each.at, until, level)
            waited = until - each.at if took is None else took
            self._require_readings(arrivals, each.at, min(each.at + waited + VALIDATION, until))
            yield self._sample(metric, "ms", 1e3 * waited, censored=took is None)
            down = after

    def _require_readings(self, arrivals: Arrivals, start: float, end: float) -> None:
        gap = arrivals.longest_gap(start, end)
        if gap > max(_BLIND, 3 * self._reader.interval):
            receiver = self._receiver.node.name
            raise ProbeError(
                f"{self._name}: {receiver} was not read for {gap:.2f} s after an event; "
                "this machine is too busy to time it"
            )

    def _share(self, down: frozenset[str], after: frozenset[str]) -> float:
        """How much more, or less, the network can carry than before; 0 where nobody can tell."""
        was, now = (self._capacity(each) for each in (down, after))
        return now / was if was and now else 0.0

    def _capacity(self, down: frozenset[str]) -> float | None:
        return capacity(self._topology, self._sender.node.name, self._receiver.node.name, down)

    def _sample(self, metric: str, unit: str, value: float, *, censored: bool = False) -> Sample:
        direction: Direction = "reverse" if self._measurement.reverse else "forward"
        return Sample(
            measurement=self._name,
            metric=metric,
            unit=unit,
            value=value,
            direction=direction,
            censored=censored,
        )


class _Reader:
    """Reads what a node receives, in a thread of its own."""

    def __init__(self, node: Node, interval: float) -> None:
        """Read every `interval` seconds, once started."""
        self._node = node
        self.interval = interval
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._found: Future[Sequence[Received]] = Future()

    def start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="convergence", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        try:
            self._found.set_result(self._node.received(self._over, self.interval))
        except BaseException as error:  # handed to whoever stops it
            self._found.set_exception(error)

    def stop(self) -> None:
        """End. Idempotent."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def found(self) -> Sequence[Received]:
        """Give the readings, after `stop`; none where it was never started."""
        return self._found.result() if self._thread is not None else ()
