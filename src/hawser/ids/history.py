"""The history that the job on Spark writes: a folder a batch, and many batches merged into one.

`batch=N` is written by Spark and replaced if the batch is repeated; `batch=A-B` holds those from A
to B. A merged folder appears whole, and what it holds is not read elsewhere, so a merge may be
killed at any moment.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from hawser.ids.errors import IdsError
from hawser.store import files
from hawser.store.lock import Lock

_NAME: Final = re.compile(r"batch=(\d{1,18})(?:-(\d{1,18}))?")
_DONE: Final = "_SUCCESS"
_NEW: Final = "_merging"
ROWS: Final = 1_000_000
"""Records of a merged folder, about: 100 MB."""


@dataclass(frozen=True, order=True)
class Batch:
    """A finished folder."""

    first: int
    last: int
    path: Path


def batches(folder: Path) -> tuple[Batch, ...]:
    """Give the finished batches of a history, in order, without those that a merged one holds."""
    merged, reach = [], -1
    for batch in sorted(_all(folder), key=lambda each: (each.first, -each.last)):
        if batch.last > reach:
            merged.append(batch)
            reach = batch.last
    return tuple(merged)


def _all(folder: Path) -> Iterator[Batch]:
    for path in folder.glob("batch=*"):
        found = _NAME.fullmatch(path.name)
        if found and (path / _DONE).exists():
            yield Batch(int(found.group(1)), int(found.group(2) or found.group(1)), path)


def merge(folder: Path, rows: int = ROWS) -> int:
    """Merge small batches into folders of about `rows` records; says how many were merged.

    The newest batch is left alone: Spark may repeat it.

    Raises:
        IdsError: a batch cannot be read, or there is no such folder.
        BundleError: another process merges this history.
    """
    try:
        lock = Lock(folder)
        try:
            for batch in set(_all(folder)) - set(batches(folder)):
                shutil.rmtree(batch.path)  # a merge was killed before it did
            shutil.rmtree(folder / _NEW, ignore_errors=True)
            return sum(_merge(folder, chosen) for chosen in _chosen(batches(folder)[:-1], rows))
        finally:
            lock.release()
    except (OSError, pa.ArrowException) as error:
        raise IdsError(folder, str(error)) from error


def _chosen(found: Sequence[Batch], rows: int) -> Iterator[Sequence[Batch]]:
    """Runs of consecutive batches that are too small, as many as fill a folder."""
    sizes = [sum(pq.read_metadata(file).num_rows for file in _parts(each)) for each in found]
    run, total = 0, 0
    numbers = []
    for at, (batch, size) in enumerate(zip(found, sizes, strict=True)):
        is_next = at > 0 and found[at - 1].last + 1 == batch.first
        if not is_next or total + size > rows:
            run, total = run + 1, 0
        total += size
        numbers.append(run)
    for _, group in groupby(zip(numbers, found, strict=True), key=lambda pair: pair[0]):
        chosen = [batch for _, batch in group]
        if len(chosen) > 1:
            yield chosen


def _merge(folder: Path, chosen: Sequence[Batch]) -> int:
    assert all(a.last + 1 == b.first for a, b in pairwise(chosen))  # noqa: S101
    new = folder / _NEW
    new.mkdir()
    parts = [part for batch in chosen for part in _parts(batch)]
    with pq.ParquetWriter(new / "records.parquet", pq.read_schema(parts[0])) as writer:
        for part in parts:
            writer.write_table(pq.read_table(part, partitioning=None))
    (new / _DONE).touch()
    files.publish(new, folder / f"batch={chosen[0].first}-{chosen[-1].last}")
    for batch in chosen:
        shutil.rmtree(batch.path)
    return len(chosen)


def _parts(batch: Batch) -> list[Path]:
    return sorted(batch.path.glob("*.parquet"))
