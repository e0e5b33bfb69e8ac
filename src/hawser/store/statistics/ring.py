"""The last seconds of all series, in mapped files.

A file is a segment: columns, one for each series, and 5400 rows, one for each second:

    0               magic, rows, columns
    4096            the second that each row holds (int64)
    + a multiple of 4096    rows of values (float32); NaN for none

A row is cleared when its second begins, so the value of a second is either there or not, however
often it was written. The kernel holds what a process that is killed has written; `sync` makes it
outlast a loss of power. Pages leave the process's memory with each `sync`.
"""

from __future__ import annotations

import mmap
import os
import struct
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float32]
Times = npt.NDArray[np.int64]

ROWS: Final = 5400
"""Seconds: an hour, what comes late into it, and time to write its minutes down."""
_NARROWEST, _WIDEST = 256, 4096
"""Columns of the first file, and of the fifth and later ones: a small network needs little disk."""
_PAGE: Final = 4096
_MAGIC: Final = b"hawser-ring-1\0\0\0"
_HEAD: Final = struct.Struct("<16sII")
_TIMES_SIZE: Final = -(-ROWS * 8 // _PAGE) * _PAGE


class Segment:
    """One file."""

    def __init__(self, path: Path, columns: int, *, write: bool = True) -> None:
        """Open a file, or make it.

        Raises:
            ValueError: it is no segment of this version.
            OSError: it cannot be opened.
        """
        size = _PAGE + _TIMES_SIZE + ROWS * columns * 4
        flags = os.O_RDWR | os.O_CREAT if write else os.O_RDONLY
        self._file = os.open(path, flags | os.O_CLOEXEC, 0o600)
        if write and os.fstat(self._file).st_size == 0:
            # With its blocks: a store into a mapped hole of a full disk would end the process.
            os.posix_fallocate(self._file, 0, size)
            os.pwrite(self._file, _HEAD.pack(_MAGIC, ROWS, columns), 0)
        found = os.pread(self._file, _HEAD.size, 0)
        if os.fstat(self._file).st_size != size or found != _HEAD.pack(_MAGIC, ROWS, columns):
            os.close(self._file)
            raise ValueError(f"{path}: this is no ring of this version")
        access = mmap.ACCESS_WRITE if write else mmap.ACCESS_READ
        self._map = mmap.mmap(self._file, size, access=access)
        self.times: Times = np.frombuffer(self._map, np.int64, ROWS, _PAGE)
        values = np.frombuffer(self._map, np.float32, ROWS * columns, _PAGE + _TIMES_SIZE)
        self._values: Values = values.reshape(ROWS, columns)

    def row(self, time: int) -> Values | None:
        """Give the row of a second, to write in; None if it has been overwritten."""
        at = time % ROWS
        held = int(self.times[at])
        if held > time:
            return None
        if held != time:
            self._values[at] = np.nan
            self.times[at] = time
        found: Values = self._values[at]
        return found

    def read(self, begin: int, end: int, columns: npt.ArrayLike) -> Values:
        """Give a copy of the values of seconds from `begin` to before `end`: (seconds, columns)."""
        wanted = np.arange(begin, end, dtype=np.int64)
        at = wanted % ROWS
        found: Values = self._values[np.ix_(at, np.atleast_1d(np.asarray(columns)))]
        found[self.times[at] != wanted] = np.nan
        return found

    def forget_after(self, time: int) -> None:
        """Drop rows of later seconds, which a wrong clock has written."""
        self.times[self.times > time] = 0

    def sync(self) -> None:
        """Make everything that was written outlast a loss of power."""
        os.fdatasync(self._file)
        self._map.madvise(mmap.MADV_DONTNEED)

    def close(self) -> None:
        """Unmap the file."""
        del self.times, self._values
        self._map.close()
        os.close(self._file)


def width(segment: int) -> int:
    """Give how many columns a segment has."""
    return min(_NARROWEST << min(segment, 8), _WIDEST)


def end_of(segment: int) -> int:
    """Give the number of columns up to the end of a segment."""
    return sum(map(width, range(segment + 1)))


class Ring:
    """All segments of a directory. Columns are numbered over them."""

    def __init__(self, directory: Path, now: int, *, write: bool = True) -> None:
        """Open the segments that are there.

        Raises:
            ValueError: a file is no segment of this version.
        """
        self._directory, self._write = directory, write
        self.segments: list[Segment] = []
        self._ends: list[int] = []
        while self._path().exists():
            self._open()
        if write:
            for segment in self.segments:
                segment.forget_after(now + 60)

    def _path(self) -> Path:
        return self._directory / f"seconds.{len(self.segments)}"

    def _open(self) -> None:
        number = len(self.segments)
        self.segments.append(Segment(self._path(), width(number), write=self._write))
        self._ends.append(end_of(number))

    def hours(self) -> list[int]:
        """Give the beginnings of the hours of which there are seconds."""
        found = {int(each) for one in self.segments for each in np.unique(one.times // 3600)}
        return sorted(3600 * each for each in found if each)

    def grow(self, columns: int) -> None:
        """Make room for so many columns."""
        while not self._ends or self._ends[-1] < columns:
            self._open()

    def read(self, begin: int, end: int, columns: npt.ArrayLike) -> Values:
        """Give a copy of the values of seconds from `begin` to before `end`: (seconds, columns).

        Raises:
            ValueError: so many seconds are not held.
        """
        if not 0 <= end - begin <= ROWS:
            raise ValueError(f"found {end - begin} seconds, expected at most {ROWS}")
        wanted = np.atleast_1d(np.asarray(columns, np.int64))
        found = np.full((end - begin, len(wanted)), np.nan, np.float32)
        for number, segment in enumerate(self.segments):
            at = wanted - self._ends[number] + width(number)
            mine = (at >= 0) & (at < width(number))
            if mine.any():
                found[:, mine] = segment.read(begin, end, at[mine])
        return found

    def sync(self) -> None:
        """Make everything that was written outlast a loss of power."""
        for segment in tuple(self.segments):
            segment.sync()

    def close(self) -> None:
        """Unmap all files."""
        for segment in self.segments:
            segment.close()
