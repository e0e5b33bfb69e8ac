"""Drift: whether records still look as those a model was trained on.

The population stability index compares shares in bins: the sum of (p - q) ln(p / q) over the bins
of a column, with q the shares in training and p those now (Siddiqi 2006). Below 0.1 is commonly
taken for no change, above 0.25 for one that matters. It needs no labels, and says nothing about
whether the model is right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from hawser.ids.errors import IdsError
from hawser.ids.features import NAMES
from hawser.ids.records import Floats, Records
from hawser.ids.table import Model

LIMIT: Final = 0.25
SCORE: Final = "score"
FEWEST: Final = 500
"""Records that a comparison needs: with fewer the index exceeds 0.1 by chance (10 bins)."""
_BINS: Final = 10
_LEAST_SHARE: Final = 1e-4
"""What an empty bin counts as, so that the logarithm is finite."""


def reference(records: Records, features: Sequence[str], scores: Floats) -> Mapping[str, Any]:
    """Describe the columns of records, for later comparisons: edges of bins, and their shares."""
    tenths = np.linspace(0, 1, _BINS + 1)[1:-1]
    # Most scores are close to 0 or 1, where deciles would tell the same from the same.
    found = {SCORE: _described(scores, tenths)}
    for name in features:
        values = records.column(name)
        found[name] = _described(values, np.unique(np.quantile(values, tenths)))
    return found


def _described(values: Floats, edges: Floats) -> Mapping[str, Any]:
    return {"edges": edges.tolist(), "shares": _shares(values, edges).tolist()}


def _shares(values: Floats, edges: Floats) -> Floats:
    """Share of the values in each bin: up to the first edge, between edges, above the last."""
    counts = np.bincount(np.searchsorted(edges, values), minlength=len(edges) + 1)
    return counts / max(1, len(values))


@dataclass(frozen=True)
class Drift:
    """How far a column has moved."""

    column: str
    index: float
    """Population stability index."""
    distance: float
    """Greatest difference of the two distributions at the edges of bins (as of Kolmogorov and
    Smirnov), 0 to 1."""


def drift(records: Records, model: Model) -> tuple[Drift, ...]:
    """Compare records with those that a model was trained on: each feature, and its score.

    Returns:
        A row a column, the greatest index first.

    Raises:
        IdsError: the model's file does not describe its training, or there are too few records.
    """
    if len(records) < FEWEST:
        raise IdsError("records", f"found {len(records)}, expected at least {FEWEST}")
    rows = [_compared(records, model, *each) for each in _references(model)]
    return tuple(sorted(rows, key=lambda row: -row.index))


def _references(model: Model) -> Sequence[tuple[str, Floats, Floats]]:
    found = model.training.get("reference")
    if not isinstance(found, Mapping):
        raise IdsError(f"model {model.name}", "its training has no `reference`")
    try:
        rows = [
            (name, np.array(each["edges"], float), np.array(each["shares"], float))
            for name, each in found.items()
            if name == SCORE or name in NAMES
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise IdsError(f"model {model.name}", f"reference: {error}") from error
    for name, edges, shares in rows:
        if shares.shape != (len(edges) + 1,) or not np.isfinite(shares).all():
            raise IdsError(f"model {model.name}", f"reference.{name}: expected a share a bin")
    return rows


def _compared(records: Records, model: Model, name: str, edges: Floats, then: Floats) -> Drift:
    values = model.score(records.features) if name == SCORE else records.column(name)
    now = _shares(values, edges)
    p, q = np.maximum(now, _LEAST_SHARE), np.maximum(then, _LEAST_SHARE)
    index = float(((p - q) * np.log(p / q)).sum())
    distance = float(np.abs(np.cumsum(now) - np.cumsum(then)).max())
    return Drift(name, index, distance)
