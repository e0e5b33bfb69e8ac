"""How full every shaped direction was, and how full just when it dropped packets."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from hawser.driver.base import Lab
from hawser.overlay.lab.plan import ShaperPlan

Row = tuple[str, str, str, float]
"""Subject, metric, unit, value."""

FULL: Final = 0.9
"""Share of its rate at which a port is so full that what its paths drop is the port's doing."""

_MOMENT: Final = 0.2
"""Seconds of the shortest time whose load says something: bursts are longer than a late timer."""

Counts = Mapping[str, Mapping[str, int]]
"""Class -> name of the count -> value."""


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

    def add(self, limit: float, seconds: float, moved: Mapping[str, int], drops: int) -> None:
        capacity = limit * seconds
        self.limit = limit
        self.offered += capacity
        self.bits += 8 * moved["bytes"]
        self.packets += moved["packets"]
        self.drops += drops
        load = 8 * moved["bytes"] / capacity
        if seconds >= _MOMENT:
            self.busiest = max(self.busiest, load)
        if drops:
            self.load_at_drops.append((load, drops))


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
        counts: dict[str, Mapping[str, int]] = {}
        for node in dict.fromkeys(shaper.node for shaper in shapers):
            counts |= self._lab.nodes[node].counters()
        self._readings.append((time.monotonic(), shapers, counts))

    def rows(self, active: float) -> Iterator[Row]:
        """Say what went through each limit between the first reading and the last.

        Args:
            active: seconds of this time in which traffic flowed.
        """
        if len(self._readings) < 2:
            return
        window = self._readings[-1][0] - self._readings[0][0]
        for name, queue in self._queues().items():
            yield name, "rate_limit", "Mbit/s", queue.limit / 1e6
            if queue.offered > 0 and active > 0:
                share = queue.bits / queue.offered * max(1.0, window / active)
                yield name, "load", "%", 100 * share
            yield name, "load_busiest", "%", 100 * queue.busiest
            yield name, "packets", "packets", float(queue.packets)
            yield name, "drop_queue", "packets", float(queue.drops)
            if queue.drops:
                load = sum(share * n for share, n in queue.load_at_drops) / queue.drops
                yield name, "load_at_drop", "%", 100 * load

    def _queues(self) -> dict[str, _Queue]:
        found: dict[str, _Queue] = {}
        for (start, shapers, before), (end, _, after) in pairwise(self._readings):
            for shaper in shapers:
                _add(found, shaper, end - start, before, after)
        return found


def _limited(shaper: ShaperPlan) -> bool:
    return shaper.rate is not None or any(each.rate is not None for each in shaper.classes)


def _add(
    found: dict[str, _Queue], shaper: ShaperPlan, seconds: float, before: Counts, after: Counts
) -> None:
    """Add what a shaper and its classes did in so many seconds.

    What a class drops while the whole is full is the whole's doing.
    """
    moved = {each.name: _moved(before, after, each.name) for each in shaper.classes}
    total = {key: sum(each[key] for each in moved.values()) for key in ("bytes", "packets")}
    drops = sum(each["drop_queue"] for each in moved.values())
    apart = [each for each in shaper.classes if each.rate is not None and len(moved) > 1]
    full = False
    if shaper.rate is not None and seconds > 0:
        full = 8 * total["bytes"] >= FULL * shaper.rate * seconds
        own = drops if full or not apart else 0
        found.setdefault(shaper.name, _Queue()).add(shaper.rate, seconds, total, own)
    elif len(moved) == 1:
        apart = list(shaper.classes)
    for each in apart if seconds > 0 else ():
        if each.rate is not None:
            lost = 0 if full else moved[each.name]["drop_queue"]
            found.setdefault(each.name, _Queue()).add(each.rate, seconds, moved[each.name], lost)


def _moved(before: Counts, after: Counts, name: str) -> dict[str, int]:
    early, late = before.get(name, {}), after.get(name, {})
    keys = ("bytes", "packets", "drop_queue")
    return {key: max(0, late.get(key, 0) - early.get(key, 0)) for key in keys}
