"""What was done, with its times: rows of the label file, and counts."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path
from typing import Final

from hawser.store import labels
from hawser.store.labels import BENIGN, Label, Ports
from hawser.store.sample import Sample

FILE: Final = "labels.csv"
MEASUREMENT: Final = "attacks"
"""Name under which counts are recorded."""
_TCP: Final = 6


@dataclass(frozen=True)
class Pair:
    """Who talks to whom: addresses of nodes."""

    source: str
    target: str


class Recorder:
    """Takes rows from many threads; in the file attacks come first, so that they decide."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._lock = threading.Lock()
        self._attacks: list[Label] = []
        self._benign: list[Label] = []
        self._failed = 0

    @contextmanager
    def attack(self, pair: Pair, name: str, tool: str) -> Iterator[None]:
        """Label all packets between two nodes while the block runs as an attack."""
        first = _now()
        try:
            yield
        finally:
            row = _label(pair, name, tool, first)
            with self._lock:
                self._attacks.append(row)

    @contextmanager
    def session(self, pair: Pair, application: str, port: int) -> Iterator[None]:
        """Label connections to a port while the block runs as benign."""
        first = _now()
        try:
            yield
        finally:
            row = _label(pair, BENIGN, application, first, _TCP, Ports(port, port))
            with self._lock:
                self._benign.append(row)

    def failed(self) -> None:
        """Count a benign session that failed or took too long."""
        with self._lock:
            self._failed += 1

    @property
    def attacks(self) -> int:
        """Attacks made so far."""
        with self._lock:
            return len(self._attacks)

    def write(self, folder: Path) -> None:
        """Write the label file."""
        with self._lock:
            by_time = [sorted(rows, key=_first) for rows in (self._attacks, self._benign)]
        labels.write(folder / FILE, [row for rows in by_time for row in rows])

    def samples(self) -> list[Sample]:
        """Give the counts."""
        with self._lock:
            counts = {
                ("attack_episodes", "episodes"): len(self._attacks),
                ("benign_sessions", "sessions"): len(self._benign),
                ("benign_failed", "sessions"): self._failed,
            }
        return [
            Sample(measurement=MEASUREMENT, metric=metric, unit=unit, value=value)
            for (metric, unit), value in counts.items()
        ]


def _label(
    pair: Pair,
    name: str,
    detail: str,
    first: int,
    protocol: int | None = None,
    ports: Ports | None = None,
) -> Label:
    source, target = ip_network(pair.source), ip_network(pair.target)
    return Label(name, first, _now(), detail, protocol, source, None, target, ports)


def _first(row: Label) -> int:
    return row.first_us


def _now() -> int:
    """Microseconds since 1970, the clock of captures."""
    return time.time_ns() // 1000
