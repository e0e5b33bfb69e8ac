"""Scores in Spark's Python workers, by the same code that evaluates models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np
import pyarrow as pa

from hawser.ids.features import NAMES
from hawser.ids.table import Model, parse

Batches = Iterator[pa.RecordBatch]


def scorer(model: bytes) -> Callable[[Batches], Batches]:
    """Give a function that adds `score` and `model` to record batches, for `mapInArrow`.

    Args:
        model: bytes of a model file that was checked.
    """

    def scored(batches: Batches) -> Batches:
        chosen = _parsed(model)
        name = f"{chosen.name} {chosen.version}"
        for batch in batches:
            columns = [batch.column(each).to_numpy(zero_copy_only=False) for each in NAMES]
            scores = chosen.score(np.column_stack(columns))
            names = pa.array([name] * len(scores), pa.string())
            yield pa.RecordBatch.from_arrays(
                [*batch.columns, pa.array(scores), names],
                names=[*batch.schema.names, "score", "model"],
            )

    return scored


@lru_cache(maxsize=1)
def _parsed(model: bytes) -> Model:
    return parse(model, "model")
