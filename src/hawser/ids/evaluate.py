"""How good a detector is: by flow, by volume, in time, and by attack.

A flow is *named* if any of its records reaches the threshold. What it sends after the first such
record could have been blocked: a verdict on the last record comes too late, the flow is over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from sklearn.metrics import average_precision_score, brier_score_loss, precision_recall_curve

from hawser.ids.errors import IdsError
from hawser.ids.flows import highest
from hawser.ids.records import Bools, Floats, Integers
from hawser.ids.table import Model
from hawser.ids.train import Labelled
from hawser.store.labels import BENIGN

_POINTS: Final = 50
"""Of the precision-recall curve, at most."""
_BINS: Final = 10
_NEVER: Final = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Matrix:
    """A confusion matrix; positive is malicious. Flows, or bytes."""

    true_positives: float
    false_positives: float
    true_negatives: float
    false_negatives: float

    @property
    def accuracy(self) -> float | None:
        """Share that was judged right."""
        right = self.true_positives + self.true_negatives
        return _ratio(right, right + self.false_positives + self.false_negatives)

    @property
    def precision(self) -> float | None:
        """Share of what was named that is malicious."""
        return _ratio(self.true_positives, self.true_positives + self.false_positives)

    @property
    def recall(self) -> float | None:
        """Share of what is malicious that was named."""
        return _ratio(self.true_positives, self.true_positives + self.false_negatives)

    @property
    def false_alarms(self) -> float | None:
        """Share of what is benign that was named."""
        return _ratio(self.false_positives, self.false_positives + self.true_negatives)

    def document(self) -> Mapping[str, float | None]:
        """Counts and rates."""
        rates = ("accuracy", "precision", "recall", "false_alarms")
        return vars(self) | {name: getattr(self, name) for name in rates}


@dataclass(frozen=True)
class Group:
    """A group of flows."""

    flows: Matrix
    """Flows that were named."""
    in_time: Matrix
    """Flows that were named before their end: those that a block can still meet."""
    volume: Matrix
    """Bytes after the verdict: positives would have been blocked. Bytes of IP packets."""
    detection_s: tuple[float, float] | None
    """From a malicious flow's first packet to the verdict, seconds: median and 99th percentile of
    those named; None if none was."""


@dataclass(frozen=True)
class Evaluation:
    """What a detector was worth on labelled records."""

    all: Group
    short: Group
    """Flows shorter than 2 s, the published window."""
    long: Group
    by_attack: Mapping[str, Group]
    average_precision: float | None
    """Area under the precision-recall curve, by flow."""
    curve: tuple[tuple[float, float, float], ...]
    """Threshold, precision and recall, by flow."""
    calibration: tuple[tuple[float, float, int], ...]
    """Of records, in ten bins of the score: mean score, share that is malicious, records."""
    brier: float | None
    """Mean squared difference of score and truth, by record (Brier 1950)."""
    unlabelled: int


def evaluate(found: Labelled, model: Model, threshold: float | None = None) -> Evaluation:
    """Judge a model by labelled records.

    Args:
        found: labelled records, best with early and window records (`--records all`).
        model: the model.
        threshold: instead of the model's.

    Raises:
        IdsError: there are no flows with a label.
    """
    if not len(found.flows):
        raise IdsError("labels", f"none of {found.unlabelled} flows has a label")
    scores = model.score(found.records.features)
    judged = _Judged.of(found, scores, model.threshold if threshold is None else threshold)
    is_short, everything = found.flows.is_short(), np.ones(len(found.flows), bool)
    attacks = sorted({label for label in found.label.tolist() if label != BENIGN})
    by_flow, is_malicious = highest(found.flows, scores), found.is_malicious
    of_record = is_malicious[found.flows.of_record]
    has_both = 0 < is_malicious.sum() < len(is_malicious)
    return Evaluation(
        all=judged.group(everything),
        short=judged.group(is_short),
        long=judged.group(~is_short),
        by_attack={name: judged.group(np.asarray(found.label == name)) for name in attacks},
        average_precision=(
            float(average_precision_score(is_malicious, by_flow)) if has_both else None
        ),
        curve=_curve(is_malicious, by_flow) if has_both else (),
        calibration=_calibration(of_record, scores),
        brier=float(brier_score_loss(of_record, scores)) if has_both else None,
        unlabelled=found.unlabelled,
    )


@dataclass(frozen=True)
class _Judged:
    """Verdicts on m flows."""

    is_malicious: Bools
    is_named: Bools
    is_in_time: Bools
    volume: Floats
    """Bytes."""
    blocked: Floats
    """Bytes after the verdict."""
    delay_us: Integers
    """From the first packet to the verdict, of named flows."""

    @classmethod
    def of(cls, found: Labelled, scores: Floats, threshold: float) -> _Judged:
        flows = found.flows
        is_over = scores >= threshold
        named = _first(flows.decided_us, is_over, flows.of_record, len(flows))
        is_useful = is_over & ~found.records.is_last()
        # Of the bytes that a flow had sent at its verdicts, the fewest are those of the first.
        seen = np.full(len(flows), np.inf)
        np.minimum.at(seen, flows.of_record[is_useful], flows.seen[is_useful])
        return cls(
            is_malicious=found.is_malicious,
            is_named=named < _NEVER,
            is_in_time=np.isfinite(seen),
            volume=flows.volume,
            blocked=np.maximum(flows.volume - seen, 0.0),
            delay_us=named - flows.first_us,
        )

    def group(self, chosen: Bools) -> Group:
        delays = self.delay_us[chosen & self.is_malicious & self.is_named] / 1e6
        return Group(
            flows=self._flows(chosen, self.is_named),
            in_time=self._flows(chosen, self.is_in_time),
            volume=self._volume(chosen),
            detection_s=(
                (float(np.median(delays)), float(np.quantile(delays, 0.99)))
                if len(delays)
                else None
            ),
        )

    def _flows(self, chosen: Bools, is_named: Bools) -> Matrix:
        cells = [chosen & malicious & named for malicious, named in self._cells(is_named)]
        return Matrix(*(int(cell.sum()) for cell in cells))

    def _cells(self, is_named: Bools) -> tuple[tuple[Bools, Bools], ...]:
        yes, no = self.is_malicious, ~self.is_malicious
        return ((yes, is_named), (no, is_named), (no, ~is_named), (yes, ~is_named))

    def _volume(self, chosen: Bools) -> Matrix:
        malicious, benign = chosen & self.is_malicious, chosen & ~self.is_malicious
        passed = self.volume - self.blocked
        return Matrix(
            true_positives=float(self.blocked[malicious].sum()),
            false_positives=float(self.blocked[benign].sum()),
            true_negatives=float(passed[benign].sum()),
            false_negatives=float(passed[malicious].sum()),
        )


def _first(times: Integers, chosen: Bools, flow: Integers, flows: int) -> Integers:
    """(m,) Earliest of the chosen records' times in each flow; `_NEVER` where there is none."""
    found = np.full(flows, _NEVER)
    np.minimum.at(found, flow[chosen], times[chosen])
    return found


def _curve(is_malicious: Bools, scores: Floats) -> tuple[tuple[float, float, float], ...]:
    precision, recall, thresholds = precision_recall_curve(
        is_malicious, scores, drop_intermediate=True
    )
    points = np.unique(np.linspace(0, len(thresholds) - 1, _POINTS).astype(int))
    return tuple((float(thresholds[at]), float(precision[at]), float(recall[at])) for at in points)


def _calibration(is_malicious: Bools, scores: Floats) -> tuple[tuple[float, float, int], ...]:
    bins = np.minimum((scores * _BINS).astype(int), _BINS - 1)
    rows = []
    for number in range(_BINS):
        inside = bins == number
        if inside.any():
            truth = float(is_malicious[inside].mean())
            rows.append((float(scores[inside].mean()), truth, int(inside.sum())))
    return tuple(rows)


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
