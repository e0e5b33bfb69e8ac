"""Whether the order in which runs were made left a mark on their results."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import scipy

from hawser.spec.model import Model
from hawser.stats.summary import checked

SIGNIFICANT = 0.01
"""Level of both tests: a report asks many such questions, one in a hundred errs."""

FEWEST = 8
"""Below this many values no order of them is remarkable enough."""


class OrderCheck(Model):
    """A trend and the dependence of neighbours, in a series of n values in the order of trials."""

    n: int
    slope: float
    """Theil-Sen slope, unit of the values a trial."""
    trend_p: float
    """Probability of a trend as strong without cause (Mann-Kendall, two-sided)."""
    lag1: float
    """Autocorrelation at lag 1, from -1 to 1."""
    lag1_limits: tuple[float, float]
    """Where it lies in 99 of 100 independent series."""

    @property
    def trend(self) -> bool:
        """Whether the values rise or fall over the run."""
        return self.n >= FEWEST and self.trend_p < SIGNIFICANT

    @property
    def dependent(self) -> bool:
        """Whether neighbours are more alike, or more unlike, than chance makes them."""
        low, high = self.lag1_limits
        return self.n >= FEWEST and not low <= self.lag1 <= high


def check_order(values: Sequence[float]) -> OrderCheck:
    """Look for marks of the order.

    Trend by Mann (Econometrica 13, 1945) and Kendall, which is Kendall's tau against time; slope by
    Sen (JASA 63, 1968); limits of the autocorrelation -1/n +- z / sqrt(n) (Bartlett, JRSS Suppl. 8,
    1946).

    Args:
        values: at least two finite numbers, in the order of trials.

    Raises:
        ValueError: fewer than two values, or one that is not finite.
    """
    series = checked(values)
    n = series.size
    if n < 2:
        raise ValueError("found one value, expected at least two")
    time = np.arange(n, dtype=np.float64)
    constant = np.ptp(series) == 0
    half = float(scipy.stats.norm.ppf(1 - SIGNIFICANT / 2)) / math.sqrt(n)
    return OrderCheck(
        n=n,
        slope=float(scipy.stats.theilslopes(series, time).slope),
        trend_p=1.0 if constant else float(scipy.stats.kendalltau(time, series).pvalue),
        lag1=autocorrelation(series.tolist()),
        lag1_limits=(-1 / n - half, -1 / n + half),
    )


def autocorrelation(values: Sequence[float]) -> float:
    """Autocorrelation at lag 1: sum of products of neighbouring deviations over the sum of squares.

    Zero for a constant series.
    """
    deviation = checked(values) - np.mean(values)
    squares = float(deviation @ deviation)
    return float(deviation[:-1] @ deviation[1:]) / squares if squares > 0 else 0.0
