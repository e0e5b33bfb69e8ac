"""Tests whether a bound holds for a variant, not only for the trials that were made."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy

from hawser.spec.model import Model
from hawser.stats.effect import SIGNIFICANT, holm
from hawser.stats.summary import Values

Verdict = Literal["holds", "fails", "undecided"]

FEWEST = 3
"""Trials that a decision needs by default."""
MEAN_FROM = 30
"""Trials that a decision about a mean needs: fewer may not include a slow mode."""

_SMALL = 10
"""Trials from which the sign test has power enough to be corrected for many bounds."""
_CAUTION = 3
"""Factor of the p-values of t below that. For 3 to 9 exponential values its error rate is up to 2.4
times the nominal one."""


class Bounds(Model):
    """Limits of a value."""

    at_least: float | None = None
    at_most: float | None = None

    def met(self, value: float) -> bool:
        """Whether a value lies there."""
        return (self.at_least is None or value >= self.at_least) and (
            self.at_most is None or value <= self.at_most
        )


@dataclass(frozen=True)
class BoundsCheck:
    """Result of testing bounds."""

    low: float | None
    """One-sided 95 % confidence bound from below; None if there is none."""
    high: float | None
    """One-sided 95 % confidence bound from above."""
    holds: float
    """p-value against the hypothesis that the bounds are violated."""
    fails: float
    """p-value against the hypothesis that they are kept."""


def check_bounds(values: Sequence[float], bounds: Bounds, *, mean: bool = False) -> BoundsCheck:
    """Test bounds of the median, or mean, of what trials are samples of.

    Two tests must agree. Student's t (of logarithms, if values and bounds are positive) has power
    in small samples, but is sensitive to skewness: below ten trials its p-values are tripled. The
    sign test is correct for any distribution. From ten trials on the larger p-value counts. Below,
    the smallest p-value of the sign test, 2^-n, is too large to be corrected for many bounds: it
    must be at most 0.05, or all trials must be on the same side.

    Args:
        values: one a trial, at least two; infinite where censored.
        bounds: to test.
        mean: test the mean, by t alone.
    """
    sample = np.asarray(values, dtype=np.float64)
    edges = [edge for edge in (bounds.at_least, bounds.at_most) if edge is not None]
    scaled, unscale = _scaled(sample, edges, mean=mean)
    sides = []
    if bounds.at_least is not None:
        sides.append(_side(sample, scaled, bounds.at_least, 1, mean=mean))
    if bounds.at_most is not None:
        sides.append(_side(sample, scaled, bounds.at_most, -1, mean=mean))
    low, high = (_limit(sample, scaled, way, unscale, mean=mean) for way in (1, -1))
    return BoundsCheck(
        low=low,
        high=high,
        holds=max(side[0] for side in sides),
        fails=min(1.0, len(sides) * min(side[1] for side in sides)),
    )


_Scale = tuple[Values, bool]
"""Values, and whether they are logarithms."""


def _scaled(sample: Values, edges: Sequence[float], *, mean: bool) -> tuple[_Scale, bool]:
    logarithmic = not mean and sample.min() > 0 and min(edges) > 0
    return (np.log(sample) if logarithmic else sample, logarithmic), logarithmic


def _side(
    sample: Values, scaled: _Scale, edge: float, way: int, *, mean: bool
) -> tuple[float, float]:
    """p-values for and against the true value being on the right side of an edge.

    Args:
        sample: the values.
        scaled: the same on the scale of the t test.
        edge: the bound.
        way: 1 for at least, -1 for at most.
        mean: test the mean.
    """
    values, logarithmic = scaled
    inside = int(np.sum(way * (sample - edge) >= 0))
    distance = way * (values - (math.log(edge) if logarithmic else edge))
    one, other = _t(distance)
    if mean:
        return one, other
    return _agreed(one, inside, sample.size), _agreed(other, sample.size - inside, sample.size)


def _t(distance: Values) -> tuple[float, float]:
    """One-sided p-values of a mean above, and below, zero; NaN if some values are infinite."""
    alike = bool((distance == distance[0]).all())
    if alike:  # among them trials that are all censored
        return (0.0, 1.0) if distance[0] >= 0 else (1.0, 0.0)
    if not np.isfinite(distance).all():
        return math.nan, math.nan
    centre, spread = float(distance.mean()), float(distance.std(ddof=1))
    score = centre / spread * math.sqrt(distance.size)
    freedom = distance.size - 1
    return float(scipy.special.stdtr(freedom, -score)), float(scipy.special.stdtr(freedom, score))


def _agreed(t: float, count: int, n: int) -> float:
    """Combined p-value of both tests; that of the sign test if there is none of t.

    Args:
        t: p-value of the t test.
        count: trials on the side in question.
        n: all trials.
    """
    sign = float(scipy.special.bdtrc(count - 1, n, 0.5)) if count else 1.0
    if math.isnan(t):
        return sign
    if n >= _SMALL:
        return max(t, sign)
    return min(1.0, _CAUTION * t) if sign <= max(SIGNIFICANT, 0.5**n) * (1 + 1e-9) else 1.0


def _limit(
    sample: Values, scaled: _Scale, way: int, logarithmic: bool, *, mean: bool
) -> float | None:
    """One-sided 95 % confidence bound, the wider of the two tests; from below if way is 1."""
    values, _ = scaled
    n = sample.size
    found = [] if mean else [float(np.sort(sample)[::way][_rank(n) - 1])]
    if np.isfinite(values).all():
        level = SIGNIFICANT / (1 if mean or n >= _SMALL else _CAUTION)
        half = scipy.special.stdtrit(n - 1, 1 - level) * values.std(ddof=1) / math.sqrt(n)
        end = float(values.mean() - way * half)
        found.append(math.exp(min(end, 700.0)) if logarithmic else end)
    limit = min(found) if way == 1 else max(found)
    return limit if math.isfinite(limit) else None


@functools.cache
def _rank(n: int) -> int:
    """Rank of the order statistic that bounds the median from one side; 1 below n = 5.

    The largest k with P(Binomial(n, 1/2) < k) at most 0.05.
    """
    return max(1, sum(bool(scipy.special.bdtr(k, n, 0.5) <= SIGNIFICANT) for k in range(n)))


def decide(found: Sequence[BoundsCheck | None]) -> tuple[tuple[Verdict, float | None], ...]:
    """Decide which bounds hold and which fail; the probability of any error is at most 5 %.

    Holm's correction over all bounds. Only one of `holds` and `fails` can be wrong for a bound, so
    each counts once (Shaffer, Annals of Statistics 8, 1980).

    Args:
        found: one for each bound; None if there are too few trials.

    Returns:
        Verdicts with their corrected p-values.
    """
    smaller = [None if one is None else min(one.holds, one.fails) for one in found]
    return tuple(
        ("undecided" if p is None or one is None or p > SIGNIFICANT else _word(one), p)
        for one, p in zip(found, holm(smaller), strict=True)
    )


def _word(one: BoundsCheck) -> Verdict:
    return "holds" if one.holds <= one.fails else "fails"
