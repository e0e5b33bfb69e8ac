"""Ratio of two samples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hawser.spec.model import Model
from hawser.stats.summary import CONFIDENCE, RESAMPLES, Interval, Values, checked


class Ratio(Model):
    """An effect size: the median of one sample over the median of another."""

    value: float
    interval: Interval | None
    """95 %; None if a sample has fewer than three values or a denominator can be zero."""

    @property
    def clear(self) -> bool:
        """Whether the interval excludes 1, so that the samples differ."""
        return self.interval is not None and not self.interval.low <= 1 <= self.interval.high

    @property
    def close(self) -> bool:
        """Whether the interval contains 1. Without an interval this is false, and so is `clear`."""
        return self.interval is not None and not self.clear

    @property
    def verdict(self) -> bool | None:
        """Whether the samples differ; None without an interval."""
        return None if self.interval is None else self.clear


def ratio_of_medians(
    numerator: Sequence[float], denominator: Sequence[float], seed: int = 1
) -> Ratio | None:
    """Ratio of medians with its percentile bootstrap interval, the samples resampled independently.

    Percentile, not BCa: a median's jackknife has hardly two distinct values, so that BCa's
    acceleration means nothing (Efron and Tibshirani, An Introduction to the Bootstrap, 1993,
    section 11.6). Coverage in simulation: 0.89 at n = 3, 0.95 and above from n = 5.

    Args:
        numerator: one finite number a run.
        denominator: likewise.
        seed: of the bootstrap.

    Returns:
        None if the denominator's median is zero.

    Raises:
        ValueError: a sample is empty, or has a value that is not finite.
    """
    above, below = checked(numerator), checked(denominator)
    if np.median(below) == 0:
        return None
    value = float(np.median(above) / np.median(below))
    return Ratio(value=value, interval=_interval(above, below, seed))


def _interval(above: Values, below: Values, seed: int) -> Interval | None:
    if min(above.size, below.size) < 3:
        return None
    random = np.random.default_rng(seed)
    medians = [
        np.median(random.choice(sample, (RESAMPLES, sample.size)), axis=1)
        for sample in (above, below)
    ]
    if (medians[1] == 0).any():
        return None
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(medians[0] / medians[1], (tail, 1 - tail))
    return Interval(low=float(low), high=float(high))
