"""Flow records: CSV as `hawserd flows` writes it, Parquet, or the record log of a sensor."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyarrow import csv, json

from hawser.ids import history
from hawser.ids.errors import IdsError
from hawser.ids.features import LAST, NAMES, REASONS, TUPLE

_FEATURES: Final = "features"
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]
Texts = NDArray[np.object_]

_TYPES: Final = {
    "srcip": pa.string(),
    "srcport": pa.uint16(),
    "dstip": pa.string(),
    "dstport": pa.uint16(),
    "proto": pa.uint8(),
    "first_us": pa.int64(),
    "last_us": pa.int64(),
    "reason": pa.string(),
}
SCHEMA: Final = pa.schema([*_TYPES.items(), *((name, pa.float64()) for name in NAMES)])
"""What is read of a file; other columns are left alone."""


@dataclass(frozen=True)
class Records:
    """Flow records, a row each. All arrays have n rows."""

    rows: pa.Table
    """Columns of `SCHEMA`."""
    features: Floats
    """(n, 40), in the order of `NAMES`."""

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def texts(self, name: str) -> Texts:
        """Give a column of text."""
        return self.rows[name].to_numpy()  # type: ignore[no-any-return]

    def integers(self, name: str) -> Integers:
        """Give a column of integers."""
        return self.rows[name].to_numpy().astype(np.int64)  # type: ignore[no-any-return]

    def is_last(self) -> Bools:
        """Say which records are the last of their flow."""
        return pc.is_in(self.rows["reason"], pa.array(LAST)).to_numpy()  # type: ignore[no-any-return]

    def is_window(self) -> Bools:
        """Say which records cover a window alone."""
        return pc.equal(self.rows["reason"], "window").to_numpy()  # type: ignore[no-any-return]

    def volume(self) -> Floats:
        """Bytes that each record covers, both directions."""
        return self.column("total_fvolume") + self.column("total_bvolume")

    def packets(self) -> Floats:
        """Packets that each record covers, both directions."""
        return self.column("total_fpackets") + self.column("total_bpackets")

    def column(self, feature: str) -> Floats:
        """Values of a feature."""
        return self.features[:, NAMES.index(feature)]

    def keys(self) -> pa.Array:
        """Name of the conversation of each record, the same in both directions: `labels.key`."""
        ends = [
            pc.binary_join_element_wise(
                self.rows[f"{end}ip"], self.rows[f"{end}port"].cast(pa.string()), "|"
            )
            for end in ("src", "dst")
        ]
        proto = self.rows["proto"].cast(pa.string())
        joined = pc.binary_join_element_wise(
            pc.min_element_wise(*ends), pc.max_element_wise(*ends), proto, "|"
        )
        return joined.combine_chunks()

    def take(self, chosen: Bools | Integers) -> Records:
        """Give some of the records, by a mask or by numbers."""
        numbers = np.flatnonzero(chosen) if chosen.dtype == bool else chosen
        return Records(self.rows.take(pa.array(numbers)), self.features[numbers])


def read(paths: Sequence[Path]) -> Records:
    """Read records: CSV, Parquet or JSON-lines files, or folders of the latter two.

    Raises:
        IdsError: a file cannot be read, lacks a column, or has a value that is not allowed.
    """
    tables = [_table(file) for path in paths for file in stored(path)]
    return of_table(pa.concat_tables(tables), ", ".join(map(str, paths)))


def of_table(table: pa.Table, place: str) -> Records:
    """Check a table of the columns of `SCHEMA`.

    Raises:
        IdsError: a value is missing, not finite, or no reason.
    """
    for name in SCHEMA.names:
        if table[name].null_count:
            raise IdsError(place, f"{name}: found a missing value, expected one in each row")
    unknown = set(pc.unique(table["reason"]).to_pylist()) - set(REASONS)
    if unknown:
        expected = ", ".join(REASONS)
        raise IdsError(place, f"reason: found {min(unknown)!r}, expected one of {expected}")
    columns = [table[name].to_numpy() for name in NAMES]
    features = np.column_stack(columns) if len(table) else np.zeros((0, len(NAMES)))
    bad = ~np.isfinite(features)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise IdsError(f"{place}, record {row + 1}", f"{NAMES[column]}: expected a finite number")
    return Records(table, features)


def stored(path: Path) -> list[Path]:
    """Files of a path: itself, or the Parquet files and record logs of a folder.

    Of a history that Spark writes, batches that are not finished are left out.

    Raises:
        IdsError: there are none.
    """
    if not path.is_dir():
        return [path]
    found = [
        file
        for ending in ("parquet", "jsonl")
        for file in sorted(path.rglob(f"*.{ending}"))
        if not any(part.startswith(("_", ".")) for part in file.relative_to(path).parts)
    ]
    histories = {file.parent.parent for file in found if _is_batch(file)}
    finished = {batch.path for each in histories for batch in history.batches(each)}
    found = [file for file in found if not _is_batch(file) or file.parent in finished]
    if not found:
        raise IdsError(path, "found no Parquet file and no record log")
    return found


def _is_batch(file: Path) -> bool:
    return file.parent.name.startswith("batch=")


def _table(path: Path) -> pa.Table:
    try:
        if path.suffix == ".parquet":
            found = pq.read_schema(path).names
            _need(found, path)
            # `partitioning=None`: names of folders are no columns.
            table = pq.read_table(path, columns=SCHEMA.names, partitioning=None)
        elif path.suffix == ".jsonl":
            table = _log(path)
        else:
            table = _csv(path)
        return table.select(SCHEMA.names).cast(SCHEMA)
    except OSError as error:
        raise IdsError(path, error.strerror or str(error)) from error
    except pa.ArrowException as error:
        raise IdsError(path, _one_line(error)) from error


def _log(path: Path) -> pa.Table:
    """Read a file of a sensor's record log, except a last line that is not whole."""
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if not whole:
        return SCHEMA.empty_table()
    fields = pa.schema([*_TYPES.items(), (_FEATURES, pa.list_(pa.float64()))])
    options = json.ParseOptions(explicit_schema=fields, unexpected_field_behavior="ignore")
    table = json.read_json(io.BytesIO(whole), parse_options=options)
    found = table[_FEATURES].combine_chunks()
    if pc.any(pc.not_equal(pc.list_value_length(found), len(NAMES))).as_py() or found.null_count:
        raise IdsError(path, f"{_FEATURES}: expected {len(NAMES)} numbers in each record")
    columns = found.flatten().to_numpy(zero_copy_only=False).reshape(-1, len(NAMES))
    for number, name in enumerate(NAMES):
        table = table.append_column(name, pa.array(columns[:, number], pa.float64()))
    return table


def _csv(path: Path) -> pa.Table:
    with path.open("rb") as opened:
        header = opened.readline(_HEADER_MAX).decode(errors="replace").strip()
    _need(header.split(","), path)
    options = csv.ConvertOptions(
        column_types=dict(zip(SCHEMA.names, SCHEMA.types, strict=True)),
        include_columns=SCHEMA.names,
        strings_can_be_null=True,
    )
    return csv.read_csv(path, convert_options=options)


_HEADER_MAX: Final = 1 << 16
"""Bytes of a header at most."""


def _need(found: Sequence[str], path: Path) -> None:
    lacking = [name for name in SCHEMA.names if name not in found]
    if lacking:
        known = ", ".join(TUPLE)
        raise IdsError(
            path, f"no column {lacking[0]}; expected those of `hawserd flows` ({known}, ...)"
        )


def _one_line(error: Any) -> str:  # noqa: ANN401 (pyarrow's have no types)
    return " ".join(str(error).split())
