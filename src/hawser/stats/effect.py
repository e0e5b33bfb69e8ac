"""Ratio or difference of two variants, within blocks of trials.

Trials are blocked by repeat: each repeat tries every variant once, in random order. Changes of the
machine from block to block cancel in a ratio within the block.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import scipy

from hawser.spec.model import Model
from hawser.stats.summary import CONFIDENCE, Interval, Values, checked

SIGNIFICANT = 1 - CONFIDENCE

FEWEST = 3
"""Blocks from which an effect has an interval."""


class Effect(Model):
    """How one variant differs from another."""

    kind: Literal["ratio", "difference", "order"]
    """A difference, in the unit of the values, if one of them is not positive; an order if one is
    known only to be larger than something."""
    value: float
    """Geometric mean of ratios, mean of differences, or share of blocks in which the first value is
    the larger one."""
    interval: Interval | None
    """95 %, of this effect alone; None below three blocks."""
    paired: bool
    """Whether it is taken within blocks."""
    n: int
    """Blocks, or trials of the variant that has fewer."""
    p: float | None
    """Two-sided p-value; None without an interval."""
    adjusted: float | None = None
    """The same, corrected for the number of effects; None if not corrected yet."""

    @property
    def larger(self) -> bool:
        """Whether the first of both has the larger values."""
        return self.value > {"ratio": 1.0, "difference": 0.0, "order": 0.5}[self.kind]

    @property
    def verdict(self) -> bool | None:
        """Whether the two differ significantly; None if there are too few blocks."""
        p = self.p if self.adjusted is None else self.adjusted
        return None if p is None else p <= SIGNIFICANT

    @property
    def clear(self) -> bool:
        """Whether the two differ significantly."""
        return self.verdict is True

    @property
    def close(self) -> bool:
        """Whether there are enough blocks, but no significant difference."""
        return self.verdict is False


def effect(one: Mapping[int, float], other: Mapping[int, float]) -> Effect | None:
    """Ratio of one variant to another, or their difference.

    Within blocks (Student's t of the logarithms of the ratios, or of the differences); if fewer
    than three blocks have both, from all trials, unpaired (Welch, Biometrika 34, 1947).

    Args:
        one: block -> a finite number.
        other: likewise.

    Returns:
        None if one of them has no value, or the ratio is not a finite number above 0.

    Raises:
        ValueError: a value is not finite.
    """
    if not one or not other:
        return None
    blocks = sorted(one.keys() & other.keys())
    if len(blocks) >= FEWEST or (blocks and min(len(one), len(other)) < FEWEST):
        return _paired([one[b] for b in blocks], [other[b] for b in blocks])
    return unpaired(list(one.values()), list(other.values()))


def ordered(one: Mapping[int, float], other: Mapping[int, float]) -> Effect | None:
    """Which variant has the larger values, where some are infinite: the sign test within blocks.

    Equal values, such as two infinite ones, say nothing and count half (Dixon and Mood, JASA 41,
    1946).

    Args:
        one: block -> a number, infinite if it is known only to be larger than any.
        other: likewise.

    Returns:
        None without common blocks. The p-value is None where no outcome could be significant.
    """
    blocks = one.keys() & other.keys()
    if not blocks:
        return None
    larger = sum(one[b] > other[b] for b in blocks)
    smaller = sum(one[b] < other[b] for b in blocks)
    n = larger + smaller
    p = float(scipy.stats.binomtest(larger, n).pvalue) if 2.0 ** (1 - n) <= SIGNIFICANT else None
    return Effect(
        kind="order",
        value=(larger + (len(blocks) - n) / 2) / len(blocks),
        interval=None,
        paired=True,
        n=len(blocks),
        p=p,
    )


def _paired(one: Sequence[float], other: Sequence[float]) -> Effect | None:
    (above, below), kind = _scaled(one, other)
    change = above - below
    spread = float(change.std(ddof=1)) / math.sqrt(change.size) if change.size > 1 else math.nan
    return _effect(kind, float(change.mean()), spread, change.size - 1, change.size, paired=True)


def unpaired(one: Sequence[float], other: Sequence[float]) -> Effect | None:
    """The same of samples without common blocks, such as those of two runs."""
    (above, below), kind = _scaled(one, other)
    n = min(above.size, below.size)
    parts = [float(sample.var(ddof=1)) / sample.size for sample in (above, below) if n > 1]
    total = sum(parts)
    sizes = (above.size, below.size)
    squares = sum(v * v / (size - 1) for v, size in zip(parts, sizes, strict=False))
    freedom = total * total / squares if squares > 0 else float(n - 1)
    spread = math.sqrt(total) if n > 1 else math.nan
    mean = float(above.mean() - below.mean())
    return _effect(kind, mean, spread, freedom, n, paired=False)


Kind = Literal["ratio", "difference"]


def _scaled(one: Sequence[float], other: Sequence[float]) -> tuple[tuple[Values, Values], Kind]:
    """Logarithms if all values have one, else the values."""
    above, below = checked(one), checked(other)
    if min(above.min(), below.min()) > 0:
        return (np.log(above), np.log(below)), "ratio"
    return (above, below), "difference"


def _effect(
    kind: Kind, mean: float, spread: float, freedom: float, n: int, *, paired: bool
) -> Effect | None:
    value = _unscaled(kind, mean)
    if not math.isfinite(value) or (kind == "ratio" and value == 0):
        return None
    known = n >= FEWEST
    half = float(scipy.special.stdtrit(freedom, 0.5 + CONFIDENCE / 2)) * spread if known else 0.0
    ends = [_unscaled(kind, mean - half), _unscaled(kind, mean + half)]
    bounded = known and all(map(math.isfinite, ends))
    return Effect(
        kind=kind,
        value=value,
        interval=Interval(low=ends[0], high=ends[1]) if bounded else None,
        paired=paired,
        n=n,
        p=_p(mean, spread, freedom) if bounded else None,
    )


def _unscaled(kind: Kind, value: float) -> float:
    if kind == "difference":
        return value
    return math.exp(value) if value < 700 else math.inf


def _p(mean: float, spread: float, freedom: float) -> float:
    if spread == 0:
        return 1.0 if mean == 0 else 0.0
    return float(2 * scipy.special.stdtr(freedom, -abs(mean) / spread))


def corrected(effects: Sequence[Effect]) -> tuple[Effect, ...]:
    """The effects, with p-values corrected for their number."""
    found = holm([effect.p for effect in effects])
    pairs = zip(effects, found, strict=True)
    return tuple(effect.model_copy(update={"adjusted": p}) for effect, p in pairs)


def holm(probabilities: Sequence[float | None]) -> tuple[float | None, ...]:
    """Correct p-values for their number, which bounds the probability of any false alarm.

    Holm, Scandinavian Journal of Statistics 6, 1979.

    Args:
        probabilities: p-values; None counts for nothing.
    """
    known = sorted((p, at) for at, p in enumerate(probabilities) if p is not None)
    found: list[float | None] = [None] * len(probabilities)
    largest = 0.0
    for rank, (p, at) in enumerate(known):
        largest = max(largest, min(1.0, (len(known) - rank) * p))
        found[at] = largest
    return tuple(found)
