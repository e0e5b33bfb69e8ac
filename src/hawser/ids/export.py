"""Estimators of scikit-learn as tables."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from hawser.ids.errors import IdsError
from hawser.ids.records import Bools, Floats
from hawser.ids.table import Combine, Tree

Estimator: TypeAlias = (
    DecisionTreeClassifier | RandomForestClassifier | HistGradientBoostingClassifier
)

MALICIOUS: Final = 1
"""The class that scores are about; the other one is 0."""
TOLERANCE: Final = 1e-9
"""By how much scores may differ from those of scikit-learn: sums in another order."""


def trees(estimator: Estimator) -> tuple[Combine, float, tuple[Tree, ...]]:
    """Give an estimator's trees, how they are combined, and the base.

    Raises:
        IdsError: it was not fitted to the classes 0 and 1, or has splits that tables lack.
    """
    if estimator.classes_.tolist() != [1 - MALICIOUS, MALICIOUS]:
        raise IdsError("model", "expected records of both kinds, malicious and benign")
    if isinstance(estimator, HistGradientBoostingClassifier):
        base = float(estimator._baseline_prediction.item())  # noqa: SLF001 (no public access)
        stages = estimator._predictors  # noqa: SLF001 (likewise; `check` compares the scores)
        return "logistic", base, tuple(_boosted(stage[0].nodes) for stage in stages)
    if isinstance(estimator, RandomForestClassifier):
        return "mean", 0.0, tuple(_tree(each.tree_) for each in estimator.estimators_)
    return "mean", 0.0, (_tree(estimator.tree_),)


def check(estimator: Estimator, values: Floats, scores: Floats) -> None:
    """Compare (n,) scores of a table with the estimator's, for (n, features) values.

    Raises:
        IdsError: they differ, because this version of scikit-learn stores trees differently.
    """
    expected = estimator.predict_proba(values)[:, MALICIOUS]
    difference = float(np.abs(scores - expected).max(initial=0.0))
    if difference > TOLERANCE:
        raise IdsError("model", f"scores differ from scikit-learn's by {difference:.3g}")


def _tree(found: Any) -> Tree:  # noqa: ANN401 (scikit-learn's have no types)
    is_leaf = found.children_left < 0
    values = found.value[:, 0, :]
    # Shares of the classes at each node; a leaf must not miss 1 by a rounding error.
    shares = np.clip(values[:, MALICIOUS] / values.sum(axis=1), 0.0, 1.0)
    return Tree(
        feature=np.where(is_leaf, -1, found.feature).astype(np.int64),
        threshold=np.where(is_leaf, 0.0, found.threshold),
        left=np.where(is_leaf, 0, found.children_left).astype(np.int64),
        right=np.where(is_leaf, 0, found.children_right).astype(np.int64),
        value=shares,
    )


def _boosted(nodes: Any) -> Tree:  # noqa: ANN401 (a structured array)
    is_leaf = nodes["is_leaf"].astype(bool)
    if nodes["is_categorical"].any():
        raise IdsError("model", "expected splits by thresholds only")
    return Tree(
        feature=np.where(is_leaf, -1, nodes["feature_idx"].astype(np.int64)),
        threshold=np.where(is_leaf, 0.0, nodes["num_threshold"]),
        left=np.where(is_leaf, 0, nodes["left"]).astype(np.int64),
        right=np.where(is_leaf, 0, nodes["right"]).astype(np.int64),
        value=_means(nodes, is_leaf),
    )


def _means(nodes: Any, is_leaf: Bools) -> Floats:  # noqa: ANN401 (a structured array)
    """Values of leaves, and the mean of those below every other node, weighted by records.

    What scikit-learn keeps at other nodes was not multiplied by the learning rate.
    """
    value = np.where(is_leaf, nodes["value"], 0.0).astype(np.float64)
    count = nodes["count"].astype(np.float64)
    for node in np.flatnonzero(~is_leaf)[::-1]:  # children come after their parent
        below = [nodes["left"][node], nodes["right"][node]]
        value[node] = np.average(value[below], weights=count[below])
    return value
