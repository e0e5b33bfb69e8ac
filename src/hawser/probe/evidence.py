"""Evidence of bottlenecks: counters of the time of one measurement, as samples.

Counters are read when traffic starts and when the measurement ends. Programs and sockets may exist
only in between, and drops of queues matter only with the load at the same time, so these are also
watched during the measurement.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Self

from hawser.control.model import WanCounters
from hawser.driver.base import Lab
from hawser.driver.roles import ROLES
from hawser.node.base import Node, Usage
from hawser.probe import daemons, nstat
from hawser.probe.queues import Queues
from hawser.probe.watch import Watch
from hawser.store.sample import Sample

_EXPLAINED: Final = (
    "IpInHdrErrors", "IpInAddrErrors", "IpInUnknownProtos", "IpInDiscards", "IpInDelivers",
    "IpForwDatagrams", "IpFragFails", "IpExtInNoRoutes", "IpExtInTruncatedPkts",
    "IpExtInCsumErrors",
)  # fmt: skip
"""Counters of what happens to a received IP packet (RFC 4293)."""
_COUNTED: Final = (
    "IpInReceives", "IpReasmReqds", "IpReasmOKs", "IpOutRequests", "IpOutTransmits",
    "IpOutDiscards", "IpOutNoRoutes", "UdpInDatagrams", "UdpRcvbufErrors", *_EXPLAINED,
)  # fmt: skip


@dataclass(frozen=True)
class _State:
    """All counters at one time."""

    at: float
    protocols: Mapping[str, Mapping[str, int]]
    usage: Mapping[str, Usage | None]
    wan: tuple[WanCounters, ...]


class EvidenceRecorder:
    """Records evidence from `begin` until the end of its block."""

    def __init__(self, lab: Lab, measurement: str, ends: tuple[str, str], seconds: float) -> None:
        """Prepare to record.

        Args:
            lab: where.
            measurement: name of the measurement.
            ends: nodes between which it measures.
            seconds: expected duration of its traffic.
        """
        self._lab = lab
        self._measurement = measurement
        self._seconds = seconds
        self._begun: _State | None = None
        self._queues = Queues(lab)
        self._watch = Watch(lab, ends, self._queues, seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._watch.stop()

    def begin(self) -> None:
        """Begin recording, when traffic starts. Later calls do nothing.

        Raises:
            NodeError: a node's counters cannot be read.
        """
        if self._begun is None:
            self._begun = _state(self._lab)
            self._watch.start()

    def finish(self) -> tuple[Sample, ...]:
        """Give what was recorded since `begin`; nothing if no traffic started.

        Raises:
            NodeError: a node's counters cannot be read.
        """
        self._watch.stop()
        if self._begun is None:
            return ()
        early, late = self._begun, _state(self._lab)
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
        yield from self._queues.rows(min(window, self._seconds or window))
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
    if added["UdpInDatagrams"] or added["UdpRcvbufErrors"]:
        yield f"socket:{node}", "packets", "packets", float(added["UdpInDatagrams"])
        yield f"socket:{node}", "drop_buffer", "packets", float(added["UdpRcvbufErrors"])


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
            yield path.name, "drop_loss", "packets", float(lost)
