"""Why a record has its score."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from hawser.ids.features import NAMES
from hawser.ids.records import Floats
from hawser.ids.table import Model, Tree


@dataclass(frozen=True)
class Step:
    """A comparison on the way to a leaf."""

    feature: str
    value: float
    threshold: float
    is_above: bool


@dataclass(frozen=True)
class Explanation:
    """A score and what led to it."""

    score: float
    is_malicious: bool
    base: float
    """What the contributions are added to: the mean in training, or its log odds (`logistic`)."""
    contributions: Mapping[str, float]
    """What each feature adds along the paths of all trees, greatest magnitude first. Base and
    contributions add up to the score, with `logistic` to its log odds (Saabas 2014)."""
    steps: tuple[Step, ...]
    """The comparisons of the tree that speaks most for malice, as the daemon explains a block."""


def explain(model: Model, features: Floats) -> Explanation:
    """Explain the score of a record's (40,) features."""
    row = features[np.newaxis, :]
    values = model.columns(row)[0].astype(np.float64)
    paths = [_path(tree, values) for tree in model.trees]
    share = 1.0 / len(paths) if model.combine == "mean" else 1.0
    contributions: dict[str, float] = defaultdict(float)
    base = model.base
    for tree, path in zip(model.trees, paths, strict=True):
        base += share * float(tree.value[0])
        for node, child in pairwise(path):
            gain = share * float(tree.value[child] - tree.value[node])
            contributions[model.features[tree.feature[node]]] += gain
    score = float(model.score(row)[0])
    leaves = [float(tree.value[path[-1]]) for tree, path in zip(model.trees, paths, strict=True)]
    # The last of equals, as the daemon's.
    loudest = max(range(len(leaves)), key=lambda number: (leaves[number], number))
    return Explanation(
        score=score,
        is_malicious=score >= model.threshold,
        base=base,
        contributions=dict(sorted(contributions.items(), key=lambda item: -abs(item[1]))),
        steps=_steps(model, model.trees[loudest], paths[loudest], features),
    )


def _path(tree: Tree, values: Floats) -> list[int]:
    path = [0]
    while tree.feature[path[-1]] >= 0:
        node = path[-1]
        is_left = values[tree.feature[node]] <= tree.threshold[node]
        path.append(int((tree.left if is_left else tree.right)[node]))
    return path


def _steps(model: Model, tree: Tree, path: list[int], features: Floats) -> tuple[Step, ...]:
    return tuple(
        Step(
            feature=model.features[tree.feature[node]],
            value=float(features[NAMES.index(model.features[tree.feature[node]])]),
            threshold=float(tree.threshold[node]),
            is_above=bool(child == tree.right[node]),
        )
        for node, child in pairwise(path)
    )
