"""Location with intervals, and spread, of a sample of runs.

Each run gives one value. Seconds within a run depend on each other and are no samples.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import numpy as np
import scipy
from numpy.typing import NDArray

from hawser.spec.model import Model

Values = NDArray[np.float64]

CONFIDENCE = 0.95
RESAMPLES = 9999
"""Bootstrap resamples; Monte Carlo error of an interval's end is then about 1 % of its width."""

_DISAGREE = 0.75
_DISAGREE_FROM = 5
"""Ends that differ by more than 0.75/sqrt(n) of the t interval's width count as disagreement, from
n = 5. That is the 99th percentile of what normal samples of n = 5, 8, 10, 20, 30, 60 gave."""


class Interval(Model):
    """A confidence interval, in the unit of the values."""

    low: float
    high: float


class Summary(Model):
    """Statistics of n runs, in the unit of the values."""

    n: int
    mean: float
    t: Interval | None
    """Student's 95 % interval of the mean; None for n = 1."""
    bootstrap: Interval | None
    """BCa bootstrap 95 % interval of the mean; None for n < 3."""
    median: float
    order: Interval | None
    """Interval of the median between two order statistics; None for n = 1."""
    order_confidence: float | None
    """Its confidence: the smallest available of at least 0.95; below n = 6, that of the range."""
    sd: float | None
    """Sample standard deviation (divisor n - 1); None for n = 1."""
    cov: float | None
    """Coefficient of variation, sd / |mean|; None if undefined."""
    minimum: float
    maximum: float
    disagree: bool
    """Whether t and bootstrap intervals differ: the sample is then skewed or has outliers, and the
    mean describes it poorly."""


def summarise(values: Sequence[float], seed: int = 1) -> Summary:
    """Describe a sample.

    Args:
        values: one finite number a run, at least one.
        seed: of the bootstrap.

    Raises:
        ValueError: no value, or one that is not finite.
    """
    sample = checked(values)
    t, boot = t_interval(sample), bca_interval(sample, seed)
    order, confidence = median_interval(sample)
    mean = float(sample.mean())
    sd = float(sample.std(ddof=1)) if sample.size > 1 else None
    return Summary(
        n=sample.size,
        mean=mean,
        t=t,
        bootstrap=boot,
        median=float(np.median(sample)),
        order=order,
        order_confidence=confidence,
        sd=sd,
        cov=None if sd is None or mean == 0 else sd / abs(mean),
        minimum=float(sample.min()),
        maximum=float(sample.max()),
        disagree=_disagree(sample, t, boot),
    )


def checked(values: Sequence[float]) -> Values:
    """The values as an array of shape (n,).

    Raises:
        ValueError: no value, or one that is not finite.
    """
    sample = np.asarray(values, dtype=np.float64)
    if sample.ndim != 1 or sample.size == 0:
        raise ValueError("found no values, expected at least one")
    if not np.isfinite(sample).all():
        raise ValueError("found a value that is not finite")
    return sample


def t_interval(sample: Values) -> Interval | None:
    """Student's interval of the mean: mean +- t(n-1) sd / sqrt(n) (Student, Biometrika 6, 1908)."""
    n = sample.size
    if n < 2:
        return None
    half = scipy.stats.t.ppf(0.5 + CONFIDENCE / 2, n - 1) * sample.std(ddof=1) / math.sqrt(n)
    return Interval(low=float(sample.mean() - half), high=float(sample.mean() + half))


def bca_interval(sample: Values, seed: int) -> Interval | None:
    """Bias-corrected and accelerated bootstrap interval of the mean (Efron, JASA 82, 1987).

    Below some ten values it is too narrow (coverage at n = 5: about 0.83); hence it stands beside
    the t interval and does not replace it.
    """
    if sample.size < 3:
        return None
    least, spread = float(sample.min()), float(np.ptp(sample))
    if spread == 0:
        return Interval(low=least, high=least)
    # The interval moves and grows with the sample; between 0 and 1 no square underflows.
    unit = (sample - least) / spread
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", scipy.stats.DegenerateDataWarning)
        found = scipy.stats.bootstrap(
            (unit,),
            np.mean,
            n_resamples=RESAMPLES,
            confidence_level=CONFIDENCE,
            method="BCa",
            rng=np.random.default_rng(seed),
        ).confidence_interval
    if not (math.isfinite(found.low) and math.isfinite(found.high)):
        return None
    return Interval(low=least + spread * float(found.low), high=least + spread * float(found.high))


def median_interval(sample: Values) -> tuple[Interval | None, float | None]:
    """Distribution-free interval of the median between order statistics k and n + 1 - k.

    Its confidence is 1 - 2 P(Binomial(n, 1/2) < k) (David and Nagaraja, Order Statistics, 2003,
    section 7.1): 0.9375 at most for n = 5, so fewer than six values cannot give 0.95.

    Returns:
        The interval and its confidence.
    """
    n = sample.size
    if n < 2:
        return None, None
    k = max(1, int(scipy.stats.binom.ppf((1 - CONFIDENCE) / 2, n, 0.5)))
    while k > 1 and _order_confidence(n, k) < CONFIDENCE:
        k -= 1
    ordered = np.sort(sample)
    interval = Interval(low=float(ordered[k - 1]), high=float(ordered[n - k]))
    return interval, _order_confidence(n, k)


def _order_confidence(n: int, k: int) -> float:
    return float(1 - 2 * scipy.stats.binom.cdf(k - 1, n, 0.5))


def _disagree(sample: Values, t: Interval | None, boot: Interval | None) -> bool:
    """Compare the intervals after widening the bootstrap's by what it lacks in small samples.

    The factor is Hesterberg's (The American Statistician 69, 2015: expanded percentile).
    """
    n = sample.size
    if t is None or boot is None or n < _DISAGREE_FROM or t.high == t.low:
        return False
    mean = sample.mean()
    normal = scipy.stats.norm.ppf(0.5 + CONFIDENCE / 2)
    widen = scipy.stats.t.ppf(0.5 + CONFIDENCE / 2, n - 1) / normal * math.sqrt(n / (n - 1))
    low, high = mean - (mean - boot.low) * widen, mean + (boot.high - mean) * widen
    apart = max(abs(low - t.low), abs(high - t.high))
    return bool(apart > _DISAGREE / math.sqrt(n) * (t.high - t.low))
