"""Flows that a forest scores in a second on one core, by scikit-learn or by tables in NumPy.

`python -m peers.score_forest make MODEL` writes the forest as a model file; with `sklearn` or
`table` instead of `make` it prints how many flows a second are scored. Each is a process of its
own, which its caller holds to a core.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from hawser.ids import export, table
from hawser.ids.features import NAMES
from hawser.ids.records import Floats
from peers.sensors import DEPTH, FEATURES, TREES

_FLOWS = 1_000_000
_BATCH = 100_000
"""Flows that are scored at once, as a batch of Spark's is."""
_LABELLED = 50_000
"""Flows that the forest is trained by. Their labels are random, so its trees are nearly full."""
_COLUMNS = [NAMES.index(name) for name in FEATURES]


def _flows(count: int, seed: int) -> Floats:
    """(count, 40) Features between 0 and 1000, as `crates/trees/examples/score.rs` has them."""
    drawn = np.random.default_rng(seed).integers(0, 1000, (count, len(NAMES)))
    return drawn.astype(np.float64)


def _forest() -> RandomForestClassifier:
    flows = _flows(_LABELLED, 1)[:, _COLUMNS]
    labels = np.random.default_rng(2).integers(0, 2, _LABELLED)
    return RandomForestClassifier(TREES, max_depth=DEPTH, random_state=3).fit(flows, labels)


def _make(file: Path) -> None:
    combine, base, trees = export.trees(_forest())
    model = table.Model("bench", "1", tuple(FEATURES), combine, base, 0.5, {}, trees)
    file.write_bytes(table.write(model))


def _sklearn(_: Path) -> Callable[[Floats], object]:
    forest = _forest()
    return lambda flows: forest.predict_proba(flows[:, _COLUMNS])


def _table(file: Path) -> Callable[[Floats], object]:
    return table.read(file).score


def _rate(score: Callable[[Floats], object]) -> float:
    flows = _flows(_FLOWS, 4)
    score(flows[:_BATCH])
    start = time.perf_counter()
    for at in range(0, _FLOWS, _BATCH):
        score(flows[at : at + _BATCH])
    return _FLOWS / (time.perf_counter() - start)


def main() -> None:
    """Run the command line."""
    what, file = sys.argv[1], Path(sys.argv[2])
    if what == "make":
        _make(file)
    else:
        print(_rate({"sklearn": _sklearn, "table": _table}[what](file)))


if __name__ == "__main__":
    main()
