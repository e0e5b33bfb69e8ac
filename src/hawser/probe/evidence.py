"""Evidence of bottlenecks: counters of the time that a measurement counts, as samples.

Counters are read when the warm-up is over and when the measured time is. Programs and sockets may
exist only in between, and drops of queues matter only with the load at the same time, so these are
also looked at in between.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Self

from hawser.control.model import WanCounters
from hawser.driver.base import Lab
from hawser.driver.roles import ROLES
from hawser.node.base import Node, Usage
from hawser.probe import daemons, nstat
from hawser.probe.watch import Watch
from hawser.spec.measurement import Http, Iperf3, Load, Measurement
from hawser.store.sample import Sample

_EXPLAINED: Final = (
    "IpInHdrErrors", "IpInAddrErrors", "IpInUnknownProtos", "IpInDiscards", "IpInDelivers",
    "IpForwDatagrams", "IpFragFails", "IpExtInNoRoutes", "IpExtInTruncatedPkts",
    "IpExtInCsumErrors",
)  # fmt: skip
"""Counters of what happens to a received IP packet (RFC 4293)."""
_COUNTED: Final = (
    "IpInReceives", "IpReasmReqds", "IpReasmOKs", "IpOutRequests", "IpOutTransmits",
    "IpOutDiscards", "IpOutNoRoutes", "UdpInDatagrams", "UdpRcvbufErrors", "Udp6InDatagrams",
    "Udp6RcvbufErrors", *_EXPLAINED,
)  # fmt: skip


@dataclass(frozen=True)
class _State:
    """All counters at one time."""

    at: float
    protocols: Mapping[str, Mapping[str, int]]
    usage: Mapping[str, Usage | None]
    wan: tuple[WanCounters, ...]


_LOOKS: Final = 8
"""In a measurement, but none more than once in 0.25 s and at least one a second."""


@dataclass(frozen=True)
class Window:
    """The part of a measurement that its result counts."""

    after: float = 0.0
    """Seconds of warm-up."""
    seconds: float | None = None
    """How long it takes; None if that is not known before its end."""

    @property
    def interval(self) -> float:
        """Seconds between two looks."""
        return 1.0 if self.seconds is None else min(1.0, max(0.25, self.seconds / _LOOKS))


def counted(measurement: Measurement) -> Window:
    """Give the part of a measurement that counts."""
    match measurement:
        case Iperf3() | Http():
            return Window(float(measurement.warmup), float(measurement.duration))
        case Load():
            return Window(0.0, float(measurement.duration))
        case _:
            return Window()


class EvidenceRecorder:
    """Records evidence of one measurement, in a thread of its own, within its window."""

    def __init__(self, lab: Lab, measurement: str, ends: tuple[str, str], window: Window) -> None:
        """Prepare to record.

        Args:
            lab: where.
            measurement: name of the measurement.
            ends: nodes between which it measures.
            window: when.
        """
        self._lab = lab
        self._measurement = measurement
        self._window = window
        self._states: list[_State] = []
        self._watch = Watch(lab, ends)
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._fault: Exception | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def begin(self) -> None:
        """Traffic starts: record from the end of the warm-up on. Later calls do nothing.

        Raises:
            NodeError: a node's counters cannot be read.
        """
        if self._thread is None:
            if not self._window.after:
                self._read()
            self._thread = threading.Thread(target=self._run, name="evidence", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        try:
            if self._over.wait(self._window.after):
                return
            if not self._states:
                self._read()
            seconds = self._window.seconds
            end = math.inf if seconds is None else self._states[0].at + seconds
            while (left := end - time.monotonic()) > 0:
                if self._over.wait(min(left, self._window.interval)):
                    break
                self._watch.look()
            self._states.append(_state(self._lab))
        except Exception as fault:  # raised by `finish`
            self._fault = fault

    def _read(self) -> None:
        self._states.append(_state(self._lab))
        self._watch.look()

    def _stop(self) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def finish(self) -> tuple[Sample, ...]:
        """Give what was recorded; nothing if the measurement ended before its window began.

        Raises:
            NodeError: a node's counters could not be read.
        """
        self._stop()
        if self._fault is not None:
            raise self._fault
        if len(self._states) < 2:
            return ()
        early, late = self._states
        return tuple(
            Sample(
                measurement=self._measurement,
                metric=metric,
                unit=unit,
                value=value,
                subject=subject,
                kind="evidence",
            )
            for subject, metric, unit, value in self._rows(early, late)
        )

    def _rows(self, early: _State, late: _State) -> Iterator[tuple[str, str, str, float]]:
        window = late.at - early.at
        yield from self._watch.rows()
        for name, counts in late.protocols.items():
            yield from _protocols(name, nstat.since(early.protocols[name], counts))
        for name, usage in late.usage.items():
            yield from _usage(name, early.usage[name], usage, window)
        for node in self._lab.plan.nodes:
            if node.cpu is not None:
                yield f"node:{node.name}", "cpu_limit", "%", 100 * node.cpu
        for before, after in zip(early.wan, late.wan, strict=True):
            yield from _lost(before, after)


def _state(lab: Lab) -> _State:
    hosts = {name: node for name, node in lab.nodes.items() if _counts(node)}
    protocols = {name: nstat.counters(node, *_COUNTED) for name, node in hosts.items()}
    usage = {name: node.usage() for name, node in lab.nodes.items()}
    emulators = [each for each in lab.daemons.values() if ROLES[each.role].counters == "wan"]
    wan = (daemons.read(each).wan for each in emulators)
    return _State(time.monotonic(), protocols, usage, tuple(each for each in wan if each))


def _counts(node: Node) -> bool:
    """Whether a node's IP stack takes part; that of the WAN emulator does not."""
    return node.name != "wan"


def _protocols(node: str, added: Mapping[str, int]) -> Iterator[tuple[str, str, str, float]]:
    """Packets that the node itself dropped, in filters and policers or in socket buffers."""
    yield f"node:{node}", "packets", "packets", float(added["IpInReceives"])
    yield f"node:{node}", "drop_filter", "packets", float(vanished(added))
    read = added["UdpInDatagrams"] + added.get("Udp6InDatagrams", 0)
    unread = added["UdpRcvbufErrors"] + added.get("Udp6RcvbufErrors", 0)
    if read or unread:
        yield f"socket:{node}", "packets", "packets", float(read)
        yield f"socket:{node}", "drop_buffer", "packets", float(unread)


def vanished(added: Mapping[str, int]) -> int:
    """Packets that disappeared in the IP stack: received or to be sent, and in no other counter.

    Newer kernels count a packet as forwarded before the forwarding filters, and again when it is
    sent (OutTransmits, RFC 4293); older ones count it after them.
    """
    fragments = added["IpReasmReqds"] - added["IpReasmOKs"]
    inwards = added["IpInReceives"] - sum(added.get(name, 0) for name in _EXPLAINED) - fragments
    if "IpOutTransmits" not in added:
        return max(0, inwards)
    done = sum(added[name] for name in ("IpOutTransmits", "IpOutDiscards", "IpOutNoRoutes"))
    outwards = added["IpForwDatagrams"] + added["IpOutRequests"] - done
    return max(0, inwards) + max(0, outwards)


def _usage(
    node: str, early: Usage | None, late: Usage | None, window: float
) -> Iterator[tuple[str, str, str, float]]:
    if early is None or late is None or window <= 0:
        return
    yield f"node:{node}", "cpu", "%", 100 * (late.cpu_seconds - early.cpu_seconds) / window
    periods = late.periods - early.periods
    if periods > 0:
        yield f"node:{node}", "throttled", "%", 100 * (late.throttled - early.throttled) / periods


def _lost(before: WanCounters, after: WanCounters) -> Iterator[tuple[str, str, str, float]]:
    """Packets that the WAN emulator lost by the configured loss."""
    earlier = {path.name: path for path in before.paths}
    for path in after.paths:
        was = earlier.get(path.name)
        lost = path.drop_loss - (was.drop_loss if was else 0)
        if lost > 0:
            offered = path.rx_packets - (was.rx_packets if was else 0)
            yield path.name, "drop_loss", "packets", float(lost)
            yield path.name, "packets_offered", "packets", float(offered)
