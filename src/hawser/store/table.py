"""All samples of a run as one table in long form, in memory and as Parquet.

Columns: run, workflow, trial, repeat, one `v_<axis>` for each axis, measurement, metric, unit,
direction, subject, kind, censored, time, value, valid, reason.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from hawser.store import notes
from hawser.store.bundle import PARQUET, Bundle, Trial
from hawser.store.sample import Sample

_COMPILED = b"hawser.trials"
"""Parquet metadata: names of the trial folders that the file was compiled from."""

_SAMPLE = tuple(Sample.model_fields)


def axes(bundle: Bundle) -> tuple[str, ...]:
    """Names of the axes along which variants differ, in the workflow's order."""
    places = [place.variant for place in bundle.manifest.order]
    variants = [*places, *(trial.record.variant for trial in bundle.trials)]
    return tuple(dict.fromkeys(axis for variant in variants for axis in variant))


def samples(bundle: Bundle) -> pa.Table:
    """All samples of the finished trials, from `samples.parquet` if it is current.

    Raises:
        BundleError: a trial is damaged.
    """
    return _current(bundle) or _build(bundle)


def trials(bundle: Bundle) -> pa.Table:
    """One row per finished trial: run, variant, start and finish, valid, reason."""
    schema = pa.schema(
        [
            *_head(bundle),
            ("started", pa.timestamp("s", tz="UTC")),
            ("finished", pa.timestamp("s", tz="UTC")),
            ("valid", pa.bool_()),
            ("reason", pa.string()),
        ]
    )
    rows = [
        _place(bundle, trial)
        | trial.record.model_dump(include={"started", "finished", "valid", "reason"})
        for trial in bundle.trials
    ]
    return pa.Table.from_pylist(rows, schema)


def runs(bundles: Sequence[Bundle]) -> pa.Table:
    """One row per run: when, how it ended, with what, where, and its tags."""
    schema = pa.schema(
        [
            *((name, pa.string()) for name in ("run", "workflow", "state")),
            ("valid", pa.bool_()),
            *((name, pa.timestamp("s", tz="UTC")) for name in ("started", "finished")),
            *((name, pa.string()) for name in ("hawser", "commit", "cpu", "kernel")),
            ("tags", pa.list_(pa.string())),
        ]
    )
    rows = [
        {
            **each.manifest.model_dump(include={"run", "workflow", "started", "finished"}),
            "state": each.state,
            "valid": not each.problems(),
            "hawser": each.manifest.hawser,
            "commit": each.manifest.revision.commit if each.manifest.revision else None,
            "cpu": each.manifest.machine.cpu,
            "kernel": each.manifest.machine.kernel,
            "tags": list(notes.read(each.path).tags),
        }
        for each in bundles
    ]
    return pa.Table.from_pylist(rows, schema)


def together(tables: Sequence[pa.Table]) -> pa.Table:
    """Tables of several runs as one; columns that a run lacks are null."""
    if len(tables) == 1:
        return tables[0]
    plain = [each.replace_schema_metadata(None) for each in tables]
    return pa.concat_tables(plain, promote_options="default")


def parquet(bundle: Bundle) -> bytes:
    """The content of `samples.parquet`."""
    stream = io.BytesIO()
    pq.write_table(_build(bundle), stream, compression="zstd")
    return stream.getvalue()


def _build(bundle: Bundle) -> pa.Table:
    columns = _schema(bundle)
    lists: dict[str, list[object]] = {name: [] for name in columns.names}
    for trial in bundle.trials:
        place = _place(bundle, trial)
        place |= {"valid": trial.record.valid, "reason": trial.record.reason}
        found = trial.samples()
        for name, value in place.items():
            lists[name].extend([value] * len(found))
        for name in _SAMPLE:
            lists[name].extend(getattr(sample, name) for sample in found)
    metadata = {_COMPILED: _names(bundle)}
    return pa.Table.from_pydict(lists, columns).replace_schema_metadata(metadata)


def _current(bundle: Bundle) -> pa.Table | None:
    """The table in the Parquet file; None if that is missing, damaged or out of date."""
    try:
        table = pq.read_table(bundle.path / PARQUET)
    except (OSError, pa.ArrowException):
        return None
    metadata = table.schema.metadata or {}
    same = metadata.get(_COMPILED) == _names(bundle) and table.schema.equals(_schema(bundle))
    return table if same else None


def _names(bundle: Bundle) -> bytes:
    return json.dumps([trial.path.name for trial in bundle.trials]).encode()


def _schema(bundle: Bundle) -> pa.Schema:
    return pa.schema(
        [
            *_head(bundle),
            *((name, pa.string()) for name in ("measurement", "metric", "unit")),
            *((name, pa.string()) for name in ("direction", "subject", "kind")),
            ("censored", pa.bool_()),
            ("time", pa.float64()),
            ("value", pa.float64()),
            ("valid", pa.bool_()),
            ("reason", pa.string()),
        ]
    )


def _head(bundle: Bundle) -> list[tuple[str, pa.DataType]]:
    return [
        ("run", pa.string()),
        ("workflow", pa.string()),
        ("trial", pa.int32()),
        ("repeat", pa.int32()),
        *((f"v_{axis}", pa.string()) for axis in axes(bundle)),
    ]


def _place(bundle: Bundle, trial: Trial) -> dict[str, object]:
    variant = trial.record.variant
    return {
        "run": bundle.manifest.run,
        "workflow": bundle.manifest.workflow,
        "trial": trial.record.trial,
        "repeat": trial.record.repeat,
        **{f"v_{axis}": variant.get(axis) for axis in axes(bundle)},
    }
