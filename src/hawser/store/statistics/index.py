"""Which column of the ring belongs to which series of which branch.

`series.jsonl` has a line for each assignment; the last one of a column counts. A column is assigned
anew only after its series has been gone for longer than the ring reaches back, so it is empty then.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
import numpy.typing as npt

from hawser.store.statistics.ring import ROWS, width

Columns = npt.NDArray[np.int64]

MOST_OF_BRANCH: Final = 8192
"""Series that a branch may have in the ring, those that are gone included."""
_REUSE_AFTER: Final = ROWS + 60
"""Seconds."""
_MOST_COLUMNS: Final = 2**24


@dataclass(frozen=True)
class Layout:
    """Where the values of a report go."""

    branch: str
    names: tuple[str, ...]
    parts: tuple[tuple[int, Columns, Columns], ...]
    """For each segment: its number, its columns, and which values they take."""
    refused: int
    """Series that have no column, because the branch has too many."""


class Index:
    """Assigns columns. One process writes it; `read_only` is for others."""

    def __init__(self, path: Path, now: int, *, read_only: bool = False) -> None:
        """Read the assignments.

        Raises:
            ValueError: the file is damaged.
        """
        self._path = path
        self._columns: dict[str, dict[str, int]] = {}
        self._owners: list[tuple[str, str] | None] = []
        self._gone: dict[int, int] = {}
        """Since when the series of a column is not reported."""
        self._free: list[int] = []
        self._active: dict[str, frozenset[str]] = {}
        self._file: BinaryIO | None = None
        lines = self._read()
        self._gone = {column: now for column, owner in enumerate(self._owners) if owner}
        self._free = [column for column, owner in enumerate(self._owners) if not owner]
        if not read_only:
            if lines > 2 * len(self._owners) + 1000:
                self._compact()
            self._file = path.open("ab")

    def _read(self) -> int:
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return 0
        *lines, torn = content.split(b"\n")
        for number, line in enumerate(lines, 1):
            self._assign(*_assignment(self._path, number, line))
        # A line that was not finished was of series of which nothing has been stored yet.
        return 2**31 if torn else len(lines)

    def _assign(self, column: int, branch: str, name: str) -> None:
        self._owners.extend([None] * (column + 1 - len(self._owners)))
        old = self._owners[column]
        if old is not None:
            del self._columns[old[0]][old[1]]
        self._owners[column] = (branch, name)
        self._columns.setdefault(branch, {})[name] = column

    def _compact(self) -> None:
        beside = self._path.with_suffix(".new")
        with beside.open("wb") as file:
            for column, owner in enumerate(self._owners):
                if owner:
                    file.write(_line(column, *owner))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._path)

    @property
    def width(self) -> int:
        """How many columns there are."""
        return len(self._owners)

    def branches(self) -> tuple[str, ...]:
        """Give the branches that have series."""
        return tuple(sorted(name for name, found in self._columns.items() if found))

    def of(self, branch: str) -> Mapping[str, int]:
        """Give the columns of a branch by the names of the series."""
        return dict(self._columns.get(branch, {}))

    def active(self) -> Mapping[str, frozenset[str]]:
        """Give the series that each branch reports now."""
        return dict(self._active)

    def all(self) -> Iterator[tuple[str, str, int]]:
        """Give branch, name and column of every series, sorted."""
        for branch in self.branches():
            for name, column in sorted(self.of(branch).items()):
                yield branch, name, column

    def layout(self, branch: str, names: Sequence[str], now: int) -> Layout:
        """Give where the values of a branch's reports go, from now on."""
        self._expire(now)
        self._active[branch] = frozenset(names)
        mine = self._columns.setdefault(branch, {})
        for name, column in mine.items():
            if name not in self._active[branch]:
                self._gone.setdefault(column, now)
        new = [name for name in dict.fromkeys(names) if name not in mine]
        self._add(branch, new[: max(0, MOST_OF_BRANCH - len(mine))])
        columns = np.array([mine.get(name, -1) for name in names], np.int64)
        for column in columns:
            self._gone.pop(int(column), None)
        refused = int(np.count_nonzero(columns < 0))
        return Layout(branch, tuple(names), tuple(_parts(columns)), refused)

    def _expire(self, now: int) -> None:
        for column in [c for c, since in self._gone.items() if now - since > _REUSE_AFTER]:
            owner = self._owners[column]
            if owner is not None:
                del self._columns[owner[0]][owner[1]]
            self._owners[column] = None
            del self._gone[column]
            self._free.append(column)

    def _add(self, branch: str, names: Sequence[str]) -> None:
        lines = []
        for name in names:
            column = self._free.pop() if self._free else len(self._owners)
            self._assign(column, branch, name)
            lines.append(_line(column, branch, name))
        if lines and self._file is not None:
            self._file.write(b"".join(lines))
            self._file.flush()

    def sync(self) -> None:
        """Make all assignments outlast a loss of power."""
        if self._file is not None:
            os.fdatasync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def _parts(columns: Columns) -> Iterator[tuple[int, Columns, Columns]]:
    begin, segment, left = 0, 0, int(np.count_nonzero(columns >= 0))
    while left:
        end = begin + width(segment)
        which = np.flatnonzero((columns >= begin) & (columns < end))
        if len(which):
            yield segment, columns[which] - begin, which
        begin, segment, left = end, segment + 1, left - len(which)


def _line(column: int, branch: str, name: str) -> bytes:
    return json.dumps([column, branch, name]).encode() + b"\n"


def _assignment(path: Path, number: int, line: bytes) -> tuple[int, str, str]:
    try:
        column, branch, name = json.loads(line)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: line {number} is damaged") from error
    if not (isinstance(column, int) and 0 <= column < _MOST_COLUMNS):
        raise ValueError(f"{path}: line {number}: found column {column}")
    return column, str(branch), str(name)
