"""Minutes and hours of all series in Parquet files.

    minutes/2026-01-02T15.parquet   one hour, until its day is over
    minutes/2026-01-02.parquet      one day
    hours/2026-01-02T15.parquet, hours/2026-01-02.parquet, hours/2026-01.parquet

Times are UTC. A row has branch, series, time (the beginning), mean, low, high, and count, the
number of seconds that had a value. Files are sorted by branch, series and time, so that readers
skip most of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

HOUR: Final = 3600
MINUTE: Final = 60
LEVELS: Final = {"minutes": MINUTE, "hours": HOUR}
"""Folders, and seconds of a row."""
LATE_S: Final = 960
"""Seconds after which a report is too old: agents keep reports for 15 minutes."""
_NAME = re.compile(r"(\d{4})-(\d\d)(?:-(\d\d)(?:T(\d\d))?)?\.parquet")


@dataclass(frozen=True, order=True)
class Part:
    """A file, and the time that it covers."""

    begin: int
    """Seconds since 1970."""
    end: int
    path: Path

    @property
    def width(self) -> int:
        """Seconds."""
        return self.end - self.begin


def part(path: Path) -> Part | None:
    """Give the part that a path is by its name; None if it is none."""
    found = _NAME.fullmatch(path.name)
    if found is None:
        return None
    year, month, day, hour = (int(each) if each else None for each in found.groups())
    try:
        begin = datetime(year or 1, month or 1, day or 1, hour or 0, tzinfo=UTC)
    except ValueError:
        return None
    if hour is not None:
        end = begin + timedelta(hours=1)
    elif day is not None:
        end = begin + timedelta(days=1)
    else:
        end = (begin + timedelta(days=31)).replace(day=1)
    return Part(int(begin.timestamp()), int(end.timestamp()), path)


def hour_path(directory: Path, level: str, begin: int) -> Path:
    """Give the file of an hour."""
    return directory / level / f"{datetime.fromtimestamp(begin, UTC):%Y-%m-%dT%H}.parquet"


def day_path(directory: Path, level: str, begin: int) -> Path:
    """Give the file of a day."""
    return directory / level / f"{datetime.fromtimestamp(begin, UTC):%Y-%m-%d}.parquet"


def month_path(directory: Path, level: str, begin: int) -> Path:
    """Give the file of a month."""
    return directory / level / f"{datetime.fromtimestamp(begin, UTC):%Y-%m}.parquet"


def parts(directory: Path, level: str) -> list[Part]:
    """List the files of a level, without those whose rows are in a longer one."""
    found = [each for path in (directory / level).glob("*.parquet") if (each := part(path))]
    longer = sorted(found, key=lambda each: -each.width)
    kept: list[Part] = []
    for each in longer:
        if not any(one.begin <= each.begin and each.end <= one.end for one in kept):
            kept.append(each)
    return sorted(kept)


def covers(found: Sequence[Part], time: int) -> bool:
    """Tell whether a file has the rows of a time."""
    return any(each.begin <= time < each.end for each in found)


def quoted(path: Path) -> str:
    """Write a path in SQL."""
    return "'" + str(path).replace("'", "''") + "'"
