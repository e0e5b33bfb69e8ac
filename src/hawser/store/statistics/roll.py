"""Writing seconds down as minutes, and putting files together: `python -m ... DIRECTORY NOW`.

A process of its own, once an hour: its memory and processor time are not the controller's. It can
be killed at any moment; what it had not finished is done the next time.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hawser.store.statistics.archive import (
    HOUR,
    LATE_S,
    LEVELS,
    MINUTE,
    Part,
    covers,
    day_path,
    hour_path,
    month_path,
    part,
    parts,
    quoted,
)
from hawser.store.statistics.index import Index
from hawser.store.statistics.ring import Ring, Values
from hawser.store.statistics.summary import summary

KEEP: Final = {"minutes": 31 * 24 * HOUR, "hours": 731 * 24 * HOUR}
"""Seconds for which rows are kept."""
_DAY: Final = 24 * HOUR
_SERIES_AT_ONCE: Final = 1024
_MANTISSA: Final = np.uint32(0xFFFFF000)
"""Eleven bits of the mantissa: 0.02 %. The others are noise, and do not compress."""
_MEMORY: Final = "256MB"


def roll(directory: Path, now: int) -> None:
    """Write down the hours that are over, and put days and months together."""
    for level in LEVELS:
        (directory / level).mkdir(exist_ok=True)
        for left in (directory / level).glob(".*.parquet"):
            left.unlink()
    _hours(directory, now)
    for level in LEVELS:
        _join(directory, level, now, HOUR, day_path)
    _join(directory, "hours", now, _DAY, month_path)
    for level, keep in KEEP.items():
        for each in parts(directory, level):
            if each.end < now - keep:
                each.path.unlink()


def _hours(directory: Path, now: int) -> None:
    ring = Ring(directory, now, write=False)
    index = Index(directory / "series.jsonl", now, read_only=True)
    for begin in due(ring, now):
        if not covers(parts(directory, "minutes"), begin):
            _write_hour(directory, ring, index, begin)
        minutes = hour_path(directory, "minutes", begin)
        if minutes.exists() and not covers(parts(directory, "hours"), begin):
            _sum_up(minutes, hour_path(directory, "hours", begin))
    ring.close()


def due(ring: Ring, now: int) -> list[int]:
    """Give the hours in the ring into which nothing comes any more."""
    return [begin for begin in ring.hours() if begin + HOUR + LATE_S <= now]


def _write_hour(directory: Path, ring: Ring, index: Index, begin: int) -> None:
    series = list(index.all())
    path = hour_path(directory, "minutes", begin)
    beside = _beside(path)
    rows = 0
    with pq.ParquetWriter(beside, SCHEMA, compression="zstd", use_dictionary=TEXT) as writer:
        for at in range(0, len(series), _SERIES_AT_ONCE):
            chosen = series[at : at + _SERIES_AT_ONCE]
            values = ring.read(begin, begin + HOUR, [column for _, _, column in chosen])
            table = _minutes(chosen, begin, values)
            rows += table.num_rows
            if table.num_rows:
                writer.write_table(table)
    if rows:
        _finish(beside, path)
    else:
        beside.unlink()


TEXT: Final = ["branch", "series"]
SCHEMA: Final = pa.schema(
    {
        "branch": pa.string(),
        "series": pa.string(),
        "time": pa.timestamp("ms"),
        "mean": pa.float32(),
        "low": pa.float32(),
        "high": pa.float32(),
        "count": pa.uint16(),
    }
)


def _minutes(series: Sequence[tuple[str, str, int]], begin: int, values: Values) -> pa.Table:
    """Sum up seconds: (3600, series) values."""
    found = summary(values, MINUTE)
    mean, low, high, count = (
        each.T.ravel() for each in (found.mean, found.low, found.high, found.count)
    )
    which = np.flatnonzero(count)
    minutes = len(values) // MINUTE
    owner, minute = which // minutes, which % minutes
    times = (begin + MINUTE * minute).astype("datetime64[s]").astype("datetime64[ms]")
    columns = [
        pa.array([branch for branch, _, _ in series]).take(pa.array(owner)),
        pa.array([name for _, name, _ in series]).take(pa.array(owner)),
        pa.array(times),
        *(pa.array(_rounded(each[which])) for each in (mean, low, high)),
        pa.array(count[which].astype(np.uint16)),
    ]
    return pa.table(columns, schema=SCHEMA)


def _rounded(values: Values) -> Values:
    bits = values.view(np.uint32)
    return ((bits + np.uint32(0x800)) & _MANTISSA).view(np.float32)


def _sum_up(minutes: Path, hours: Path) -> None:
    _copy(
        f"""SELECT branch, series, date_trunc('hour', time) AS time,
          CAST(sum(mean * count) / sum(count) AS FLOAT) AS mean, min(low) AS low,
          max(high) AS high, CAST(sum(count) AS USMALLINT) AS count
        FROM read_parquet({quoted(minutes)}) GROUP BY ALL""",  # noqa: S608 (our own path)
        hours,
    )


def _join(
    directory: Path,
    level: str,
    now: int,
    width: int,
    into: Callable[[Path, str, int], Path],
) -> None:
    """Put files of a width together where the time that the new file covers is over."""
    for path, found in _groups(directory, level, width, into):
        target = part(path)
        if target is None or target.end > now - LATE_S:
            continue
        sources = ", ".join(quoted(each.path) for each in found)
        _copy(f"SELECT * FROM read_parquet([{sources}])", path)  # noqa: S608 (our own paths)
    for path in (directory / level).glob("*.parquet"):
        if path not in [each.path for each in parts(directory, level)]:
            path.unlink()  # its rows are in a longer one


def _groups(
    directory: Path, level: str, width: int, into: Callable[[Path, str, int], Path]
) -> Iterator[tuple[Path, Sequence[Part]]]:
    found: dict[Path, list[Part]] = {}
    for each in parts(directory, level):
        if each.width == width:
            found.setdefault(into(directory, level, each.begin), []).append(each)
    yield from found.items()


def _copy(query: str, path: Path) -> None:
    """Write the rows of a query, sorted."""
    beside = _beside(path)
    with duckdb.connect(config={"memory_limit": _MEMORY, "threads": 1}) as connection:
        connection.execute(f"SET temp_directory = {quoted(path.parent.parent / 'temporary')}")
        connection.execute(
            f"COPY ({query} ORDER BY branch, series, time) TO {quoted(beside)}"
            " (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 122880, PARQUET_VERSION v2)"
        )
    _finish(beside, path)


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}")


def _finish(beside: Path, path: Path) -> None:
    """Put a file in its place, so that a crash leaves all of it or none."""
    handle = os.open(beside, os.O_RDONLY | os.O_CLOEXEC)
    os.fsync(handle)
    os.close(handle)
    beside.replace(path)


if __name__ == "__main__":
    os.nice(19)
    roll(Path(sys.argv[1]), int(sys.argv[2]))
