"""Records made by hand."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from hawser.ids.features import NAMES
from hawser.ids.records import SCHEMA, Records, of_table

_DEFAULT = {
    "srcip": "10.0.0.1",
    "srcport": 40000,
    "dstip": "10.0.0.2",
    "dstport": 80,
    "proto": 6,
    "first_us": 0,
    "last_us": 0,
    "reason": "ended",
} | dict.fromkeys(NAMES, 0.0)


def record(**values: object) -> dict[str, object]:
    """A record; what is not given has a default."""
    return _DEFAULT | values


def table(*rows: dict[str, object]) -> Records:
    """Records as they are read."""
    return of_table(pa.Table.from_pylist(list(rows), schema=SCHEMA), "test")


def random(count: int, seed: int = 1) -> Records:
    """Records with random features."""
    rng = np.random.default_rng(seed)
    rows = [
        record(srcport=n % 60000, **dict(zip(NAMES, rng.exponential(1e5, len(NAMES)), strict=True)))
        for n in range(count)
    ]
    return table(*rows)
