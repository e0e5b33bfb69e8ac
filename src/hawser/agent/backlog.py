"""Reports that the controller has not acknowledged. Pure.

While the controller is away they are kept, the newest 15 minutes of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

MOST_REPORTS: Final = 900
MOST_BYTES: Final = 16 * 1024 * 1024


@dataclass(frozen=True)
class Kept:
    """A packed report, and the names of its values."""

    sequence: int
    names: tuple[str, ...]
    packed: bytes


class Backlog:
    """A bounded queue, from which reports are sent any number of times until acknowledged."""

    def __init__(self, most: int = MOST_REPORTS, most_bytes: int = MOST_BYTES) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._kept: deque[Kept] = deque()
        self._bytes = 0
        self.dropped = 0
        """Reports that were never acknowledged, for want of room."""

    def __len__(self) -> int:
        return len(self._kept)

    def put(self, report: Kept) -> None:
        """Keep a report; the oldest ones make room."""
        self._kept.append(report)
        self._bytes += len(report.packed)
        while len(self._kept) > self._most or self._bytes > self._most_bytes:
            self._remove()
            self.dropped += 1

    def acknowledge(self, sequence: int) -> None:
        """Forget all up to a report."""
        while self._kept and self._kept[0].sequence <= sequence:
            self._remove()

    def after(self, sequence: int) -> Iterator[Kept]:
        """Give what comes after a report. Nothing may change meanwhile."""
        if not self._kept or self._kept[-1].sequence <= sequence:
            return
        first = max(0, sequence + 1 - self._kept[0].sequence)
        for at in range(first, len(self._kept)):
            yield self._kept[at]

    def _remove(self) -> None:
        self._bytes -= len(self._kept.popleft().packed)
