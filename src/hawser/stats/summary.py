"""Summary statistics of trials: the median with its interval, and the spread.

The trial is the sample, never the second of a trial: seconds of one trial depend on each other.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np
import scipy
from numpy.typing import NDArray

from hawser.spec.model import Model

Values = NDArray[np.float64]

CONFIDENCE = 0.95

FEWEST = 5
"""Trials that the interval of a median needs: the range of fewer has 0.875 at most."""


class Interval(Model):
    """A confidence interval, in the unit of the values."""

    low: float
    high: float


class Summary(Model):
    """Statistics of n trials, in the unit of the values."""

    n: int
    median: float
    """If `open`, a lower bound of it: the median with censored values at their own lower bounds."""
    interval: Interval | None
    """Of the median, between order statistics; None below five trials."""
    confidence: float | None
    """Of the interval: 0.9375 for n = 5, otherwise 0.95 or more."""
    mean: float | None
    """None, like the next two, if a value is censored."""
    sd: float | None
    """Sample standard deviation (divisor n - 1); None for n = 1."""
    cov: float | None
    """Coefficient of variation, sd / |mean|; None if that is undefined."""
    minimum: float
    maximum: float
    censored: int = 0
    """Trials whose true value is larger: the awaited event had not happened when they ended."""
    open: bool = False
    """Whether the median depends on those values, so that the true one is larger."""

    def precise(self, share: float) -> bool:
        """Whether half of the width of the median's interval is at most this share of it."""
        if self.interval is None:
            return False
        return (self.interval.high - self.interval.low) / 2 <= share * abs(self.median)


def summarise(values: Sequence[float], censored: Sequence[bool] = ()) -> Summary:
    """Describe a sample.

    Args:
        values: a finite number for each trial, at least one.
        censored: for each, whether it is only a lower bound; by default none is.

    Raises:
        ValueError: no value, or one that is not finite.
    """
    sample = checked(values)
    cut = np.array(censored or [False] * sample.size, dtype=bool)
    ordered = np.where(cut, np.inf, sample)
    median = float(np.median(ordered))
    interval, confidence = median_interval(ordered)
    whole = not cut.any()
    mean = float(sample.mean()) if whole else None
    sd = float(sample.std(ddof=1)) if whole and sample.size > 1 else None
    return Summary(
        n=sample.size,
        median=median if math.isfinite(median) else float(np.median(sample)),
        interval=interval,
        confidence=confidence,
        mean=mean,
        sd=sd,
        cov=sd / abs(mean) if sd is not None and mean else None,
        minimum=float(sample.min()),
        maximum=float(sample.max()),
        censored=int(cut.sum()),
        open=not math.isfinite(median),
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


def median_interval(sample: Values) -> tuple[Interval | None, float | None]:
    """Interval of the median from order statistics k and n + 1 - k, for any distribution.

    Its confidence is 1 - 2 P(Binomial(n, 1/2) < k) (David and Nagaraja, Order Statistics, 2003,
    section 7.1). Between the two k whose confidences enclose 0.95 it is interpolated
    (Hettmansperger and Sheather, Statistics & Probability Letters 4, 1986); its coverage is then
    nearly 0.95, and always between theirs.

    Args:
        sample: shape (n,); censored values are infinite.

    Returns:
        The interval and its confidence; None below five values, or if its end is censored.
    """
    n = sample.size
    if n < FEWEST:
        return None, None
    k, weight, confidence = _ranks(n)
    ordered = np.sort(sample)
    low, high = ordered[k - 1], ordered[n - k]
    if weight:
        low = (1 - weight) * low + weight * ordered[k]
        high = (1 - weight) * high + weight * ordered[n - k - 1]
    if not math.isfinite(high):
        return None, None
    return Interval(low=float(low), high=float(high)), confidence


@functools.cache
def _ranks(n: int) -> tuple[int, float, float]:
    """Rank k of the wider interval, weight of the narrower one, and resulting confidence."""
    k = 1
    while k < n // 2 and _confidence(n, k + 1) >= CONFIDENCE:
        k += 1
    wide = _confidence(n, k)
    if wide <= CONFIDENCE or k == n // 2:
        return k, 0.0, wide
    share = (wide - CONFIDENCE) / (wide - _confidence(n, k + 1))
    return k, (n - k) * share / (k + (n - 2 * k) * share), CONFIDENCE


def _confidence(n: int, k: int) -> float:
    return float(1 - 2 * scipy.stats.binom.cdf(k - 1, n, 0.5))
