"""Statistics of gateways: taken once a second, and given for any time. Threads may share it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from hawser.store.errors import StoreError
from hawser.store.statistics.archive import HOUR, LATE_S, LEVELS, Part, covers, parts
from hawser.store.statistics.index import Index, Layout
from hawser.store.statistics.reader import Reader
from hawser.store.statistics.ring import ROWS, Ring, Values
from hawser.store.statistics.summary import Rows, rows, summary

_EARLY_S: Final = 30
"""Seconds that a report may be ahead."""
RESOLUTIONS: Final = (1, *LEVELS.values())
"""Seconds of a row."""


class StatisticsStore:
    """The statistics in a directory. One process has it open at a time."""

    def __init__(self, directory: Path, clock: Callable[[], float]) -> None:
        """Open it, or make it; hours that are over are written down first.

        Raises:
            StoreError: its files are damaged, or of another version.
        """
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._directory, self._clock = directory, clock
        self._lock = threading.Lock()
        self._reader = Reader()
        try:
            self._ring = Ring(directory, self.now())
            self._index = Index(directory / "series.jsonl", self.now())
            self._ring.grow(self._index.width)
        except ValueError as error:
            raise StoreError(str(error)) from error
        if self.due():
            self.roll()

    def now(self) -> int:
        """Give the time, seconds since 1970."""
        return int(self._clock())

    def layout(self, branch: str, names: Sequence[str]) -> Layout:
        """Give where the values of a branch's reports go."""
        with self._lock:
            made = self._index.layout(branch, names, self.now())
            self._ring.grow(self._index.width)
        return made

    def write(self, layout: Layout, time: int, values: npt.ArrayLike) -> bool:
        """Store a report; a second time changes nothing. False where it is too old or too early."""
        now = self.now()
        if not now - LATE_S <= time <= now + _EARLY_S:
            return False
        found = np.asarray(values, np.float32)
        for segment, columns, which in layout.parts:
            row = self._ring.segments[segment].row(time)
            if row is None:
                return False
            row[columns] = found[which]
        return True

    def sync(self) -> None:
        """Make all that was written until now outlast a loss of power."""
        self._index.sync()
        self._ring.sync()

    def branches(self) -> tuple[str, ...]:
        """Give the branches that have series."""
        with self._lock:
            return self._index.branches()

    def series(self, branch: str) -> tuple[str, ...]:
        """Give the series of a branch that the last hour has."""
        with self._lock:
            return tuple(sorted(self._index.of(branch)))

    def means(
        self, begin: int, end: int, wanted: Callable[[str], bool]
    ) -> dict[tuple[str, str], float]:
        """Give means of series over seconds that the ring has, by branch and name."""
        with self._lock:
            found = [each for each in self._index.all() if wanted(each[1])]
        if not found or end <= begin:
            return {}
        values = self._ring.read(begin, end, [column for _, _, column in found])
        means = summary(values, len(values)).mean[0]
        return {
            (branch, name): float(mean)
            for (branch, name, _), mean in zip(found, means, strict=True)
            if not np.isnan(mean)
        }

    def history(self, branch: str, name: str, begin: int, end: int, resolution: int) -> Rows:
        """Give a series from `begin` to before `end`.

        Args:
            branch: which branch's.
            name: the series.
            begin: seconds since 1970.
            end: seconds since 1970.
            resolution: one of `RESOLUTIONS`.

        Raises:
            StoreError: files are damaged.
        """
        if resolution == 1:
            return self._seconds(branch, name, begin, end)
        level = next(each for each, seconds in LEVELS.items() if seconds == resolution)
        for again in (True, False):
            found = parts(self._directory, level)
            try:
                stored = self._reader.read(found, branch, name, begin, end)
                break
            except FileNotFoundError as error:  # put together with others just now
                if not again:
                    raise StoreError(str(error)) from error
        recent = self._recent(branch, name, (begin, end), resolution, found)
        return Rows.joined([stored, *recent])

    def _seconds(self, branch: str, name: str, begin: int, end: int) -> Rows:
        now = self.now()
        begin, end = max(begin, now - ROWS + _EARLY_S), min(end, now + _EARLY_S)
        values = self._column(branch, name, begin, max(begin, end))
        return rows(begin, values, 1)

    def _column(self, branch: str, name: str, begin: int, end: int) -> Values:
        with self._lock:
            column = self._index.of(branch).get(name)
        if column is None:
            return np.full(max(0, end - begin), np.nan, np.float32)
        found: Values = self._ring.read(begin, end, column)[:, 0]
        return found

    def _recent(
        self, branch: str, name: str, span: tuple[int, int], resolution: int, stored: list[Part]
    ) -> list[Rows]:
        """Sum up the hours that are in no file yet."""
        now = self.now()
        found = []
        for hour in range((now - ROWS) // HOUR * HOUR, now + 1, HOUR):
            begin = max(hour, -(-span[0] // resolution) * resolution)
            end = min(hour + HOUR, -(-span[1] // resolution) * resolution)
            if begin < end and not covers(stored, hour):
                values = self._column(branch, name, begin, end)
                found.append(rows(begin, values, resolution))
        return found

    def due(self) -> bool:
        """Tell whether there are hours to write down."""
        now, found = self.now(), parts(self._directory, "hours")
        hours = self._ring.hours()
        return any(not covers(found, each) for each in hours if each + HOUR + LATE_S <= now)

    def roll(self) -> None:
        """Write down hours that are over, in a process of its own.

        Raises:
            StoreError: it failed.
        """
        module = "hawser.store.statistics.roll"
        command = [sys.executable, "-m", module, str(self._directory), str(self.now())]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        if done.returncode:
            raise StoreError(f"statistics: {done.stderr.decode(errors='replace')[-2000:]}")

    def close(self) -> None:
        """Close all files."""
        with contextlib.suppress(OSError):
            self.sync()
        self._reader.close()
        self._index.close()
        self._ring.close()
