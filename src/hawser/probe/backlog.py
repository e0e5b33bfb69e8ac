"""How many bytes wait in every queue with a rate, over the time of a measurement."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Final, Self

from hawser.driver.base import Lab
from hawser.node.base import NodeError
from hawser.probe import counted
from hawser.store.sample import Direction, Sample

_MOST: Final = 200_000
"""Samples of a trial at most; a long measurement is read less often."""


class Backlog:
    """Reads the queues of a lab in a thread of its own, from `begin` to the end of the block."""

    def __init__(self, lab: Lab, measurement: str, interval: float, seconds: float) -> None:
        """Prepare to read.

        Args:
            lab: whose shapers are read.
            measurement: what the samples belong to.
            interval: seconds between two readings.
            seconds: how long the measurement will take.
        """
        self._lab = lab
        self._measurement = measurement
        self._names = {
            each.name
            for shaper in lab.plan.shapers
            if shaper.rate is not None or any(c.rate is not None for c in shaper.classes)
            for each in shaper.classes
        }
        self._nodes = tuple(dict.fromkeys(shaper.node for shaper in lab.plan.shapers))
        readings = seconds / interval * max(1, len(self._names))
        self._interval = interval * max(1.0, readings / _MOST)
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._found: list[tuple[float, str, int]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def begin(self) -> None:
        """Traffic starts now. Later calls do nothing."""
        if self._thread is None:
            began = time.monotonic()
            self._thread = threading.Thread(target=self._run, args=(began,), name="backlog")
            self._thread.start()

    def _run(self, began: float) -> None:
        due = began
        while not self._over.wait(max(0.0, due - time.monotonic())):
            with contextlib.suppress(NodeError):  # read again the next time
                tables = counted.read(self._lab, self._nodes)
                at = time.monotonic() - began
                for counters in tables.values():
                    for name in self._names & counters.keys():
                        self._found.append((at, name, counters[name].get("backlog", 0)))
            due = max(due + self._interval, time.monotonic())

    def finish(self) -> Iterator[Sample]:
        """End, and give the time series; queues that stayed empty have none."""
        self.__exit__()
        used = {name for _, name, waiting in self._found if waiting}
        for at, name, waiting in self._found:
            if name in used:
                yield Sample(
                    measurement=self._measurement,
                    metric="queue",
                    unit="bytes",
                    value=waiting,
                    direction=_direction(name),
                    subject=name,
                    kind="interval",
                    time=at,
                )


def _direction(name: str) -> Direction:
    end = name.rpartition(":")[2]
    return "forward" if end == "forward" else "reverse" if end == "reverse" else "none"
