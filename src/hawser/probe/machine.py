"""Usage of the machine's CPUs, memory and disks during a measurement."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Self

import psutil


@dataclass(frozen=True)
class Core:
    """Seconds since boot of one processor."""

    busy: float
    total: float


@dataclass(frozen=True)
class Reading:
    """The machine at one moment."""

    at: float
    """Monotonic seconds."""
    cores: tuple[Core, ...]
    used_memory: int
    """Bytes that are not available to new programs."""
    disk_read: int = 0
    """Bytes read from disks since boot."""
    disk_written: int = 0
    """Bytes written to disks since boot."""


def read() -> Reading:
    """Read the machine's processor times, memory and disk counters."""
    memory = psutil.virtual_memory()
    disks = psutil.disk_io_counters()  # None where the machine has none
    read_bytes, written = (0, 0) if disks is None else (disks.read_bytes, disks.write_bytes)
    used = int(memory.total - memory.available)
    return Reading(time.monotonic(), _cores(), used, read_bytes, written)


def _cores() -> tuple[Core, ...]:
    found = []
    for times in psutil.cpu_times(percpu=True):
        total = sum(times) - times.guest - times.guest_nice  # both are in user and nice as well
        found.append(Core(busy=total - times.idle - times.iowait, total=total))
    return tuple(found)


def shares(early: Reading, late: Reading) -> tuple[float, ...]:
    """How busy each core was in between, percent; differences of large sums may round below 0."""
    return tuple(
        max(0.0, 100 * (b.busy - a.busy) / (b.total - a.total)) if b.total > a.total else 0.0
        for a, b in zip(early.cores, late.cores, strict=False)
    )


class Watch:
    """Reads the machine once a second, in a thread of its own, for as long as its block runs."""

    def __init__(self, interval: float = 1.0) -> None:
        self._readings: list[Reading] = []
        self._interval = interval
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="machine", daemon=True)

    def _watch(self) -> None:
        while not self._end.wait(self._interval):
            self._readings.append(read())

    def __enter__(self) -> Self:
        self._readings.append(read())
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def readings_until_now(self) -> tuple[Reading, ...]:
        """All readings, in order, the last one taken now."""
        return (*self._readings, read())
