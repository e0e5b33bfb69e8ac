"""Model files: decision trees as tables, with schema, hash and how they were trained.

The format is that of `crates/trees/src/file.rs`, which the daemon reads, with the same limits. A
score is the probability that a flow is malicious, 0 to 1.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from hawser.ids.errors import IdsError
from hawser.ids.features import NAMES
from hawser.ids.records import Floats, Integers

SCHEMA: Final = 1
SIZE_MAX: Final = 64 << 20
NODES_MAX: Final = 1 << 20
TREES_MAX: Final = 4096
DEPTH_MAX: Final = 64

Combine = Literal["mean", "logistic"]


@dataclass(frozen=True)
class Tree:
    """A tree of k nodes; node 0 is the root, children come after their parent."""

    feature: Integers
    """(k,) Index into the model's features, -1 at a leaf."""
    threshold: Floats
    """(k,) Values up to it go left."""
    left: Integers
    right: Integers
    value: Floats
    """(k,) At a leaf what the tree says; elsewhere the mean below it, or 0 if that is unknown."""

    def leaves(self, values: NDArray[np.float32]) -> Integers:
        """(n,) Node that each row of `values`, (n, features), reaches."""
        at = np.zeros(len(values), np.int64)
        rows = np.arange(len(values))
        while True:
            rows = rows[self.feature[at[rows]] >= 0]
            if not len(rows):
                return at
            node = at[rows]
            # As scikit-learn and the daemon compare: single precision with double.
            found = values[rows, self.feature[node]].astype(np.float64)
            is_left = found <= self.threshold[node]
            at[rows] = np.where(is_left, self.left[node], self.right[node])


@dataclass(frozen=True)
class Model:
    """A model that was checked."""

    name: str
    version: str
    features: tuple[str, ...]
    combine: Combine
    base: float
    """What `logistic` adds to the leaves, log odds."""
    threshold: float
    """Flows with at least this score count as malicious."""
    training: Mapping[str, Any]
    """How it was trained, for people and `hawser ids`."""
    trees: tuple[Tree, ...]

    def columns(self, features: Floats) -> NDArray[np.float32]:
        """Give the model's columns of (n, 40) features, in single precision."""
        return features[:, [NAMES.index(name) for name in self.features]].astype(np.float32)

    def score(self, features: Floats) -> Floats:
        """(n,) Probability that each row of (n, 40) features is malicious."""
        values = self.columns(features)
        total = np.zeros(len(values))
        for tree in self.trees:
            total += tree.value[tree.leaves(values)]
        if self.combine == "mean":
            return total / len(self.trees)
        return 1.0 / (1.0 + np.exp(-(self.base + total)))

    def with_(self, **changes: Any) -> Model:  # noqa: ANN401 (fields of any type)
        """Give a copy with other fields, checked as a file is.

        Raises:
            IdsError: a value is not allowed.
        """
        changed = replace(self, **changes)
        _check(changed, "model")
        return changed


def write(model: Model) -> bytes:
    """Write a model as its file.

    Raises:
        IdsError: it is larger than the daemon reads.
    """
    _check(model, "model")
    content = {
        "schema": SCHEMA,
        "name": model.name,
        "version": model.version,
        "features": list(model.features),
        "combine": model.combine,
        "base": model.base,
        "threshold": model.threshold,
        "training": model.training,
        "trees": [_columns(tree) for tree in model.trees],
    }
    text = json.dumps(content, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    digest = hashlib.sha256(text.encode()).hexdigest()
    written = f'{{"sha256": "{digest}", "model": {text}}}\n'.encode()
    if len(written) > SIZE_MAX:
        raise IdsError("model", f"found {len(written)} bytes, expected at most 64 MiB")
    return written


def _columns(tree: Tree) -> dict[str, list[float]]:
    names = ("feature", "threshold", "left", "right", "value")
    return {name: getattr(tree, name).tolist() for name in names}


def read(path: Path) -> Model:
    """Read a model file.

    Raises:
        IdsError: it cannot be read, was changed, or is no model within the limits.
    """
    try:
        with path.open("rb") as opened:
            found = opened.read(SIZE_MAX + 1)
    except OSError as error:
        raise IdsError(path, error.strerror or str(error)) from error
    return parse(found, str(path))


_ENVELOPE: Final = re.compile(r'\s*\{\s*"sha256"\s*:\s*"([0-9a-f]{64})"\s*,\s*"model"\s*:\s*')


def parse(found: bytes, place: str) -> Model:
    """Parse the bytes of a model file.

    Raises:
        IdsError: they were changed, or are no model within the limits.
    """
    if len(found) > SIZE_MAX:
        raise IdsError(place, "found more, expected at most 64 MiB")
    try:
        text = found.decode()
        begin = _ENVELOPE.match(text)
        if begin is None:
            raise IdsError(place, 'expected a model: {"sha256": "...", "model": {...}}')
        decoder = json.JSONDecoder(parse_constant=_not_finite)
        content, end = decoder.raw_decode(text, begin.end())
    except (ValueError, RecursionError) as error:
        raise IdsError(place, f"not a model: {error}") from error
    if text[end:].strip() != "}":
        raise IdsError(place, "not a model: expected its end after `model`")
    digest = hashlib.sha256(text[begin.end() : end].encode()).hexdigest()
    if digest != begin.group(1):
        raise IdsError(place, f"sha256: found {digest}, expected {begin.group(1)}")
    return _model(content, place)


_FIELDS: Final = {"schema", *(field.name for field in fields(Model))}


def _not_finite(name: str) -> NoReturn:
    raise ValueError(f"found {name}, expected a finite number")


def _model(content: Any, place: str) -> Model:  # noqa: ANN401 (any JSON)
    try:
        if unknown := set(content) - _FIELDS:
            raise IdsError(place, f"found {min(unknown)!r}, expected no such field")
        if content["schema"] != SCHEMA:
            raise IdsError(place, f"schema: found {content['schema']}, expected {SCHEMA}")
        model = Model(
            name=str(content["name"]),
            version=str(content["version"]),
            features=tuple(content["features"]),
            combine=content["combine"],
            base=float(content.get("base", 0.0)),
            threshold=float(content["threshold"]),
            training=content["training"],
            trees=tuple(_tree(each) for each in content["trees"]),
        )
    except KeyError as error:
        raise IdsError(place, f"no {error.args[0]!r}") from error
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise IdsError(place, f"not a model: {error}") from error
    _check(model, place)
    return model


def _tree(columns: Mapping[str, Any]) -> Tree:
    return Tree(
        feature=_array(columns["feature"], np.int64),
        threshold=_array(columns["threshold"], np.float64),
        left=_array(columns["left"], np.int64),
        right=_array(columns["right"], np.int64),
        value=_array(columns["value"], np.float64),
    )


def _array(values: Any, kind: type[np.generic]) -> Any:  # noqa: ANN401 (any JSON)
    allowed = {int} if kind is np.int64 else {int, float}
    if not isinstance(values, list) or not {type(value) for value in values} <= allowed:
        raise ValueError("expected lists of numbers in the columns of a tree")
    return np.array(values, dtype=kind)


def _check(model: Model, place: str) -> None:
    if unknown := [name for name in model.features if name not in NAMES]:
        raise IdsError(place, f"features: found {unknown[0]!r}, expected the name of a feature")
    if model.combine not in ("mean", "logistic"):
        raise IdsError(place, f"combine: found {model.combine!r}, expected mean or logistic")
    if not 0 <= model.threshold <= 1:
        raise IdsError(place, f"threshold: found {model.threshold}, expected 0 to 1")
    if not np.isfinite(model.base):
        raise IdsError(place, "base: expected a finite number")
    if not isinstance(model.training, Mapping):
        raise IdsError(place, "training: expected an object")
    if not 1 <= len(model.trees) <= TREES_MAX:
        raise IdsError(place, f"trees: found {len(model.trees)}, expected 1 to {TREES_MAX}")
    nodes = sum(len(tree.feature) for tree in model.trees)
    if nodes > NODES_MAX:
        raise IdsError(place, f"trees: found {nodes} nodes, expected at most {NODES_MAX}")
    for number, tree in enumerate(model.trees):
        if problem := _tree_problem(tree, len(model.features), model.combine):
            raise IdsError(f"{place}, trees.{number}", problem)


def _tree_problem(tree: Tree, features: int, combine: Combine) -> str:
    count = len(tree.feature)
    if not count or any(
        len(column) != count for column in (tree.threshold, tree.left, tree.right, tree.value)
    ):
        return "expected columns of one length, at least 1"
    inner = np.flatnonzero(tree.feature >= 0)
    children = np.concatenate((tree.left[inner], tree.right[inner]))
    parents = np.concatenate((inner, inner))
    if ((children <= parents) | (children >= count)).any():
        return f"expected children after their parents, below {count}"
    if (tree.feature >= features).any():
        return f"feature: expected less than the {features} features"
    if not np.isfinite(tree.threshold[inner]).all():
        return "threshold: expected finite numbers"
    values = tree.value[tree.feature < 0]
    if combine == "mean" and not ((values >= 0) & (values <= 1)).all():
        return "value: expected probabilities, 0 to 1"
    if not np.isfinite(values).all():
        return "value: expected finite numbers"
    if _depth(tree, inner.tolist()) > DEPTH_MAX:
        return f"expected at most {DEPTH_MAX} comparisons on the way to a leaf"
    return ""


def _depth(tree: Tree, inner: Sequence[int]) -> int:
    depth = [0] * len(tree.feature)
    for node in inner:
        for child in (tree.left[node], tree.right[node]):
            depth[child] = max(depth[child], depth[node] + 1)
    return max(depth)
