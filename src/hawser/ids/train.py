"""Training: from labelled records to a model."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np
import sklearn
from sklearn.model_selection import StratifiedGroupKFold
from threadpoolctl import threadpool_limits

from hawser import __version__
from hawser.ids import drift, export
from hawser.ids.choice import Kind, Weigh
from hawser.ids.errors import IdsError
from hawser.ids.export import Estimator
from hawser.ids.features import DEFAULT, NAMES
from hawser.ids.flows import Flows, drawn, group, highest
from hawser.ids.importance import Importance, given_away, importance
from hawser.ids.learners import learner
from hawser.ids.records import Bools, Floats, Integers, Records, Texts
from hawser.ids.table import Model
from hawser.ids.truth import Truth
from hawser.store.labels import BENIGN

_FOLDS: Final = 5
_FEWEST: Final = 10
"""Flows of either kind: two a fold."""
LEAST_THRESHOLD: Final = 0.5
_WORTH_THREADS: Final = 50_000
"""Records from which on several threads gain: 12 000 were boosted in 14 s by one, in 29 by two."""

Fold = tuple[Integers, Integers]


@dataclass(frozen=True)
class Settings:
    """How to train."""

    kind: Kind = Kind.TREE
    features: tuple[str, ...] = DEFAULT
    depth: int | None = None
    """Comparisons on the way to a leaf, at most; None is the kind's default."""
    share: float = 1.0
    """Share of the flows that are drawn to train with."""
    false_alarms: float = 0.001
    """Share of benign flows that may be named malicious."""
    seed: int = 1
    weigh: Weigh = Weigh.FLOW
    """What counts alike."""


@dataclass(frozen=True)
class Labelled:
    """Records whose flows have labels; n records, m flows."""

    records: Records
    flows: Flows
    label: Texts
    """(m,)"""
    unlabelled: int
    """Flows that were left out because they have no label."""

    @property
    def is_malicious(self) -> Bools:
        """(m,) Say which flows are attacks."""
        return np.asarray(self.label != BENIGN)

    def only(self, flows: Bools) -> Labelled:
        """Give some of the flows."""
        records = self.records.take(flows[self.flows.of_record])
        return Labelled(records, group(records), self.label[flows], self.unlabelled)


def labelled(records: Records, truth: Truth) -> Labelled:
    """Put labels to records. Those whose label is unknown are left out and counted."""
    flows = group(records)
    found = truth.of(records, flows)
    whole = Labelled(records, flows, found, int((found == "").sum()))
    return whole.only(np.asarray(found != ""))


@dataclass(frozen=True)
class Trained:
    """A model and what is known of it."""

    model: Model
    estimator: Estimator
    importance: Importance
    """Of its features, on records that were kept back."""
    given_away: Importance
    """What addresses, ports and protocol would have been worth to a model that sees them."""


def train(
    found: Labelled, settings: Settings, sources: Sequence[Mapping[str, str]], now: datetime
) -> Trained:
    """Train a model.

    The threshold is the least, from 0.5 on, at which models trained without a flow name at most
    `false_alarms` of the benign flows (cross-validation; all records of a flow are in one fold).

    Args:
        found: labelled records.
        settings: how to train.
        sources: names and hashes of the files, for the provenance.
        now: the time, for the provenance.

    Raises:
        IdsError: too few flows of either kind, or a feature is unknown.
    """
    _check(settings)
    chosen = drawn(found.records, found.flows, settings.share, settings.seed)
    found = found.only(chosen) if settings.share < 1 else found
    _check_flows(found)
    with threadpool_limits(1 if len(found.records) < _WORTH_THREADS else None):
        return _train(found, settings, sources, now)


def _train(
    found: Labelled, settings: Settings, sources: Sequence[Mapping[str, str]], now: datetime
) -> Trained:
    values = _values(found.records, settings.features)
    target, weight = _targets(found, settings.weigh)
    folds = _folds(found, target, settings.seed)
    scores = np.empty(len(target))
    judged: Estimator | None = None
    for fit, judge in folds:
        judged = learner(settings.kind, settings.depth, settings.seed)
        judged.fit(values[fit], target[fit].astype(int), sample_weight=weight[fit])
        scores[judge] = judged.predict_proba(values[judge])[:, export.MALICIOUS]
    assert judged is not None  # noqa: S101 (there are folds)
    last = folds[-1][1]
    whole = learner(settings.kind, settings.depth, settings.seed)
    whole.fit(values, target.astype(int), sample_weight=weight)
    important = importance(judged, values[last], target[last], settings.features, settings.seed)
    cheating = given_away(found.records, values, target, folds[-1], settings.seed)
    threshold = _threshold(highest(found.flows, scores)[~found.is_malicious], settings.false_alarms)
    training = {
        **_provenance(found, settings, sources, now),
        "cross_validation": _validation(found, highest(found.flows, scores), threshold),
        "importance": important,
        "given_away": cheating,
        "reference": drift.reference(found.records, settings.features, scores),
    }
    model = _model(whole, settings, threshold, training, now)
    export.check(whole, values, model.score(found.records.features))
    return Trained(model, whole, important, cheating)


def _check(settings: Settings) -> None:
    for name in settings.features:
        if name not in NAMES:
            raise IdsError("features", f"found {name!r}, expected some of {', '.join(NAMES)}")
    if not settings.features:
        raise IdsError("features", "expected at least one")


def _check_flows(found: Labelled) -> None:
    malicious = int(found.is_malicious.sum())
    for kind, count in (("malicious", malicious), ("benign", len(found.flows) - malicious)):
        if count < _FEWEST:
            raise IdsError(
                "labels",
                f"found {count} {kind} flows ({found.unlabelled} flows have no label), "
                f"expected at least {_FEWEST}",
            )


def _values(records: Records, features: Sequence[str]) -> Floats:
    """(n, features), rounded to single precision as the daemon does before it compares."""
    chosen = records.features[:, [NAMES.index(name) for name in features]]
    return chosen.astype(np.float32).astype(np.float64)


def _targets(found: Labelled, weigh: Weigh) -> tuple[Bools, Floats]:
    """(n,) Which records are of attacks, and weights, which are 1 a flow on average."""
    of_record = found.flows.of_record
    weight = 1.0 / np.bincount(of_record, minlength=len(found.flows))[of_record]
    if weigh is Weigh.LABEL:
        weight *= _by_label(found)[of_record]
    return found.is_malicious[of_record], weight


def _by_label(found: Labelled) -> Floats:
    """(m,) Weights with which each attack counts alike, and all together as benign flows do."""
    names, which, counts = np.unique(
        found.label.astype(str), return_inverse=True, return_counts=True
    )
    attacks = len(names) - 1
    wanted = np.where(names == BENIGN, 0.5, 0.5 / attacks) * len(found.flows)
    weights: Floats = (wanted / counts)[which]
    return weights


def _folds(found: Labelled, target: Bools, seed: int) -> Sequence[Fold]:
    splitter = StratifiedGroupKFold(_FOLDS, shuffle=True, random_state=seed)
    return list(splitter.split(target, target, found.flows.of_record))


def _threshold(benign: Floats, share: float) -> float:
    """Least threshold, 0.5 to 1, that at most a share of the benign flows' scores reach."""
    allowed = int(share * len(benign))
    highest_first = np.sort(benign)[::-1]
    if allowed >= len(benign):
        return LEAST_THRESHOLD
    above = float(np.nextafter(highest_first[allowed], 2.0))
    return min(1.0, max(LEAST_THRESHOLD, above))


def _validation(found: Labelled, scores: Floats, threshold: float) -> Mapping[str, int]:
    is_named, is_malicious = scores >= threshold, found.is_malicious
    return {
        "true_positives": int((is_named & is_malicious).sum()),
        "false_positives": int((is_named & ~is_malicious).sum()),
        "true_negatives": int((~is_named & ~is_malicious).sum()),
        "false_negatives": int((~is_named & is_malicious).sum()),
    }


def _provenance(
    found: Labelled, settings: Settings, sources: Sequence[Mapping[str, str]], now: datetime
) -> Mapping[str, Any]:
    return {
        "time": now.astimezone(UTC).isoformat(timespec="seconds"),
        "versions": {
            "hawser": __version__,
            "scikit-learn": sklearn.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        "settings": {
            "kind": settings.kind.value,
            "depth": settings.depth,
            "share": settings.share,
            "false_alarms": settings.false_alarms,
            "seed": settings.seed,
            "weigh": settings.weigh.value,
        },
        "sources": sources,
        "records": len(found.records),
        "flows": dict(sorted(Counter(found.label.tolist()).items())),
        "unlabelled_flows": found.unlabelled,
    }


def _model(
    estimator: Estimator,
    settings: Settings,
    threshold: float,
    training: Mapping[str, Any],
    now: datetime,
) -> Model:
    combine, base, trees = export.trees(estimator)
    model = Model(
        name=settings.kind.value,
        version=now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        features=settings.features,
        combine=combine,
        base=base,
        threshold=threshold,
        training=training,
        trees=trees,
    )
    return model.with_()
