"""The kinds of models that are trained."""

from __future__ import annotations

from typing import Final

from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from hawser.ids.choice import Kind
from hawser.ids.export import Estimator
from hawser.ids.table import DEPTH_MAX

_PUBLISHED_DEPTH: Final = 5
"""Of Spark's decision tree unless told otherwise; the publication names none."""
_DEPTH: Final = {"tree": _PUBLISHED_DEPTH, "forest": 16, "boosting": 8}
_TREES: Final = 100
_LEAVES: Final = 4096
"""Leaves of a tree of a forest: 100 trees stay below the million nodes that the daemon reads."""


def learner(kind: Kind, depth: int | None, seed: int) -> Estimator:
    """Make an untrained estimator; `depth` are comparisons at most, by default the kind's."""
    depth = min(depth or _DEPTH[kind], DEPTH_MAX)
    if kind is Kind.BOOSTING:
        return HistGradientBoostingClassifier(
            max_iter=_TREES, max_depth=depth, early_stopping=False, random_state=seed
        )
    if kind is Kind.FOREST:
        return RandomForestClassifier(
            _TREES, max_depth=depth, max_leaf_nodes=_LEAVES, min_samples_leaf=2, random_state=seed
        )
    return DecisionTreeClassifier(max_depth=depth, min_samples_leaf=2, random_state=seed)
