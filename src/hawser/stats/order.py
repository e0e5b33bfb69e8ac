"""Whether results depend on the order of trials."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import scipy

from hawser.spec.model import Model
from hawser.stats.summary import checked

SIGNIFICANT = 0.01
"""Significance level of both tests; low, because a report makes many of them."""

FEWEST = 8
"""With fewer values no order is significant."""

ENOUGH = 15
"""Trials of a run with which correlated trials are detected often enough to exclude them."""
MANY, SUSPICIOUS = 30, 0.1
"""With fewer trials than `MANY`, the significance level of the correlation that forbids intervals
which assume independent trials. With more, the level of the other tests detects it as often."""


class OrderCheck(Model):
    """Trend and autocorrelation of n values in the order of trials."""

    n: int
    slope: float
    """Theil-Sen slope, in the unit of the values per trial."""
    trend_p: float
    """p-value of the trend (Mann-Kendall, two-sided)."""
    lag1: float
    """Autocorrelation at lag 1, from -1 to 1."""
    lag1_limits: tuple[float, float]
    """Its 99 % limits for independent values."""
    lag1_p: float
    """One-sided p-value of a positive autocorrelation."""

    @property
    def trend(self) -> bool:
        """Whether the values rise or fall over the run."""
        return self.n >= FEWEST and self.trend_p < SIGNIFICANT

    @property
    def dependent(self) -> bool:
        """Whether consecutive values are correlated, positively or negatively."""
        low, high = self.lag1_limits
        return self.n >= FEWEST and not low <= self.lag1 <= high

    @property
    def independent(self) -> bool:
        """Whether trials may be treated as independent: a correlation would have been detected."""
        level = SIGNIFICANT if self.n >= MANY else SUSPICIOUS
        return self.n >= ENOUGH and self.lag1_p > level and not self.trend


def check_order(values: Sequence[float]) -> OrderCheck:
    """Test a series for a trend and for autocorrelation.

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
    lag1 = autocorrelation(series.tolist())
    return OrderCheck(
        n=n,
        slope=float(scipy.stats.theilslopes(series, time).slope),
        trend_p=1.0 if constant else float(scipy.stats.kendalltau(time, series).pvalue),
        lag1=lag1,
        lag1_limits=(-1 / n - half, -1 / n + half),
        lag1_p=float(scipy.stats.norm.sf((lag1 + 1 / n) * math.sqrt(n))),
    )


def autocorrelation(values: Sequence[float]) -> float:
    """Autocorrelation at lag 1: sum of products of neighbouring deviations over the sum of squares.

    Zero for a constant series.
    """
    deviation = checked(values) - np.mean(values)
    squares = float(deviation @ deviation)
    return float(deviation[:-1] @ deviation[1:]) / squares if squares > 0 else 0.0
