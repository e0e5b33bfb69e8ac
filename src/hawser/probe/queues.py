"""How full every shaped direction was, and how full just when it dropped packets."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from hawser.driver.base import Lab
from hawser.overlay.lab.plan import ShaperPlan
from hawser.probe import counted

Row = tuple[str, str, str, float]
"""Subject, metric, unit, value."""

FULL: Final = 0.9
"""Share of its rate at which a port is so full that what its paths drop is the port's doing."""

_MOMENT: Final = 0.2
"""Seconds of the shortest time whose load says something: bursts are longer than a late timer."""

Counts = Mapping[str, Mapping[str, int]]
"""Class -> name of the count -> value."""


_SILENT: Final = 0.01
"""Share of the rate below which traffic has not begun yet: tools exchange parameters first."""


@dataclass(frozen=True)
class Moment:
    """The time between two readings."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        """How long it was."""
        return self.end - self.start


@dataclass
class _Queue:
    """What went through one limit."""

    limit: float = 0.0
    """Bits a second, the last one there was."""
    offered: float = 0.0
    """Bits that would have gone through, had it been full all the time."""
    bits: float = 0.0
    packets: int = 0
    drops: int = 0
    busiest: float = 0.0
    """Share of the rate in the busiest moment."""
    load_at_drops: list[tuple[float, int]] = field(default_factory=list)
    """Share of the rate in a moment, and packets dropped in it."""
    dropped: list[Moment] = field(default_factory=list)
    """Moments in which packets were dropped."""

    def add(self, limit: float, when: Moment, moved: Mapping[str, int], drops: int) -> None:
        capacity = limit * when.seconds
        load = 8 * moved["bytes"] / capacity
        self.limit = limit
        if not (self.offered or drops) and load < _SILENT:
            return
        self.offered += capacity
        self.bits += 8 * moved["bytes"]
        self.packets += moved["packets"]
        self.drops += drops
        if when.seconds >= _MOMENT:
            self.busiest = max(self.busiest, load)
        if drops:
            self.load_at_drops.append((load, drops))
            self.dropped.append(when)

    def rows(self, name: str, whole: float) -> Iterator[Row]:
        """Say what went through in the whole time."""
        yield name, "rate_limit", "Mbit/s", self.limit / 1e6
        if self.offered > 0:
            yield name, "load", "%", 100 * self.bits / self.offered
        yield name, "load_busiest", "%", 100 * self.busiest
        yield name, "packets", "packets", float(self.packets)
        yield name, "bytes", "bytes", self.bits / 8
        yield name, "drop_queue", "packets", float(self.drops)
        if self.drops:
            load = sum(share * n for share, n in self.load_at_drops) / self.drops
            yield name, "load_at_drop", "%", 100 * load
            span = Moment(self.dropped[0].start, self.dropped[-1].end)
            yield name, "drop_span", "%", 100 * span.seconds / whole


class Queues:
    """Reads the counters of all shaped directions of a lab, whenever it is told to."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._readings: list[tuple[float, tuple[ShaperPlan, ...], Counts]] = []

    def read(self) -> None:
        """Take a reading.

        Raises:
            NodeError: a node's counters cannot be read.
        """
        shapers = tuple(filter(_limited, self._lab.plan.shapers))
        tables = counted.read(self._lab, dict.fromkeys(shaper.node for shaper in shapers))
        counts = {name: each for table in tables.values() for name, each in table.items()}
        self._readings.append((time.monotonic(), shapers, counts))

    def rows(self) -> Iterator[Row]:
        """Say what went through each limit between the first reading and the last."""
        if len(self._readings) < 2:
            return
        whole = self._readings[-1][0] - self._readings[0][0]
        for name, queue in self._queues().items():
            yield from queue.rows(name, whole)

    def _queues(self) -> dict[str, _Queue]:
        found: dict[str, _Queue] = {}
        for (start, shapers, before), (end, _, after) in pairwise(self._readings):
            for shaper in shapers if end > start else ():
                _add(found, shaper, Moment(start, end), before, after)
        return found


def _limited(shaper: ShaperPlan) -> bool:
    return shaper.rate is not None or any(each.rate is not None for each in shaper.classes)


def _add(
    found: dict[str, _Queue], shaper: ShaperPlan, when: Moment, before: Counts, after: Counts
) -> None:
    """Add what a shaper and its classes did in a moment.

    What a class drops while the whole is full is the whole's doing.
    """
    moved = {each.name: _moved(before, after, each.name) for each in shaper.classes}
    total = {key: sum(each[key] for each in moved.values()) for key in ("bytes", "packets")}
    drops = sum(each["drop_queue"] for each in moved.values())
    apart = [each for each in shaper.classes if each.rate is not None and len(moved) > 1]
    full = False
    if shaper.rate is not None:
        full = 8 * total["bytes"] >= FULL * shaper.rate * when.seconds
        own = drops if full or not apart else 0
        found.setdefault(shaper.name, _Queue()).add(shaper.rate, when, total, own)
    elif len(moved) == 1:
        apart = list(shaper.classes)
    for each in apart:
        if each.rate is not None:
            lost = 0 if full else moved[each.name]["drop_queue"]
            found.setdefault(each.name, _Queue()).add(each.rate, when, moved[each.name], lost)


def _moved(before: Counts, after: Counts, name: str) -> dict[str, int]:
    early, late = before.get(name, {}), after.get(name, {})
    keys = ("bytes", "packets", "drop_queue")
    return {key: max(0, late.get(key, 0) - early.get(key, 0)) for key in keys}
