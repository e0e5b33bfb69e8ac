"""Linear axes: values to pixels, with tick marks at round numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from hawser.report.words import number

_LEAST = 1e-100
"""Smaller spans are drawn as zero, because arithmetic on them underflows."""


@dataclass(frozen=True)
class Scale:
    """A linear axis."""

    low: float
    high: float
    start: float
    """Pixel of `low`."""
    end: float
    """Pixel of `high`."""
    step: float
    """Distance between two ticks, as a value."""

    def __call__(self, value: float) -> float:
        """Pixel at which a value is drawn."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self) -> list[tuple[float, str]]:
        """Pixel and label of each tick."""
        n = round((self.high - self.low) / self.step)
        marks = (self.low + i * self.step for i in range(n + 1))
        return [(self(mark), label(mark, self.step)) for mark in marks]


def scale(values: Iterable[float], start: float, end: float, most: int = 6) -> Scale:
    """Make an axis that covers zero and all values, with about `most` ticks or fewer.

    It always includes zero, because the eye compares lengths.
    """
    known = [0.0, *values]
    low, high = min(known), max(known)
    if high - low < _LEAST:
        low, high = 0.0, 1.0
    step = _round_step((high - low) / most)
    first, last = math.floor(low / step), math.ceil(high / step)
    return Scale(first * step, max(last, first + 1) * step, start, end, step)


def label(mark: float, step: float) -> str:
    """Label of a tick, with as many decimals as the step has."""
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    return f"{mark:.{digits}f}" if digits <= 6 and abs(mark) < 1e6 else number(mark)


def _round_step(least: float) -> float:
    """The smallest step of 1, 2 or 5 times a power of ten that is at least `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(f * power for f in (1, 2, 5, 10) if f * power >= least * (1 - 1e-9))
