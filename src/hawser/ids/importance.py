"""What a model decides by, and what it could have cheated with.

Permutation importance (Breiman 2001): how much worse a model becomes when the values of one column
are shuffled among records, so that they say nothing any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Final

import numpy as np
from sklearn.inspection import permutation_importance

from hawser.ids.choice import Kind
from hawser.ids.export import Estimator
from hawser.ids.features import TUPLE
from hawser.ids.learners import learner
from hawser.ids.records import Bools, Floats, Integers, Records

_ROWS: Final = 10_000
_REPEATS: Final = 3
_AUDIT_DEPTH: Final = 12

Importance = Mapping[str, float]
"""Loss of average precision, 0 to 1, by column; the greatest first."""


def importance(
    estimator: Estimator, values: Floats, malicious: Bools, names: tuple[str, ...], seed: int
) -> Importance:
    """Give the importance of each column of (n, features) values that the estimator did not see."""
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(values))[:_ROWS]
    if not 0 < malicious[rows].sum() < len(rows):
        return {}
    found = permutation_importance(
        estimator,
        values[rows],
        malicious[rows].astype(int),
        scoring="average_precision",
        n_repeats=_REPEATS,
        random_state=seed,
    )
    pairs = zip(names, found.importances_mean.tolist(), strict=True)
    return dict(sorted(pairs, key=lambda pair: -pair[1]))


def given_away(
    records: Records, values: Floats, malicious: Bools, fold: tuple[Integers, Integers], seed: int
) -> Importance:
    """Importance of addresses, ports and protocol to a tree that sees them besides the features.

    Such a tree is trained for this question alone. A column that is important here would have let
    a model recognise the attackers of these records instead of attacks; models never see it.

    Args:
        records: n records.
        values: (n, features).
        malicious: (n,).
        fold: numbers of the records to train and to judge with.
        seed: of the shuffling.
    """
    train, judge = fold
    cheating = np.column_stack((*_tuple(records), values))
    tree = learner(Kind.TREE, _AUDIT_DEPTH, seed)
    tree.fit(cheating[train], malicious[train].astype(int))
    names = (*TUPLE, *map(str, range(values.shape[1])))
    found = importance(tree, cheating[judge], malicious[judge], names, seed)
    return {name: found[name] for name in found if name in TUPLE}


def _tuple(records: Records) -> list[Floats]:
    columns = []
    for name in TUPLE:
        if name.endswith("ip"):
            texts, inverse = np.unique(records.texts(name).astype(str), return_inverse=True)
            columns.append(np.array([_number(text) for text in texts])[inverse])
        else:
            columns.append(records.integers(name).astype(float))
    return columns


def _number(address: str) -> float:
    # Modulo: the last 24 bits tell hosts of IPv6 apart too, exactly in single precision.
    return float(int(ip_address(address)) % (1 << 24))
