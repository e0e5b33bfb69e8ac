"""Summing up values over time. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hawser.store.statistics.ring import Times, Values


@dataclass(frozen=True)
class Rows:
    """A series over time: four arrays of the same length."""

    times: Times
    """When each row begins, seconds since 1970."""
    mean: Values
    low: Values
    high: Values

    @classmethod
    def joined(cls, found: Sequence[Rows]) -> Rows:
        """Put rows one after the other."""
        empty = np.empty(0, np.float32)
        return cls(
            np.concatenate([np.empty(0, np.int64), *(each.times for each in found)]),
            np.concatenate([empty, *(each.mean for each in found)]),
            np.concatenate([empty, *(each.low for each in found)]),
            np.concatenate([empty, *(each.high for each in found)]),
        )


@dataclass(frozen=True)
class Summary:
    """Values of every so many seconds: (rows, series) each, NaN where the number is 0."""

    mean: Values
    low: Values
    high: Values
    count: Values
    """Number of seconds that had a value."""


def summary(values: Values, seconds: int) -> Summary:
    """Sum up every so many seconds.

    Args:
        values: (seconds, series); NaN for none.
        seconds: a divisor of their number.
    """
    grouped = values.reshape(len(values) // seconds, seconds, values.shape[1])
    there = ~np.isnan(grouped)
    count = there.sum(axis=1)
    total = np.where(there, grouped, 0).sum(axis=1, dtype=np.float64)
    low = np.where(there, grouped, np.inf).min(axis=1)
    high = np.where(there, grouped, -np.inf).max(axis=1)
    empty = count == 0
    with np.errstate(invalid="ignore"):
        mean = (total / count).astype(np.float32)
    low[empty] = high[empty] = np.nan
    return Summary(mean, low, high, count.astype(np.float32))


def rows(begin: int, values: Values, seconds: int) -> Rows:
    """Sum up one series; rows without values are left out.

    Args:
        begin: when the first value is, seconds since 1970.
        values: (seconds,); NaN for none.
        seconds: of a row, a divisor of their number.
    """
    found = summary(values[:, None], seconds)
    which = np.flatnonzero(found.count[:, 0])
    times = begin + seconds * which
    return Rows(times, found.mean[which, 0], found.low[which, 0], found.high[which, 0])
