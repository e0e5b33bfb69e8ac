"""Simulated runs with known true values, to test statistics on equal or unequal variants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Values]
"""Draws the given number of noise factors, in trial order."""

RELATED: Final = 0.6
"""Autocorrelation of neighbouring trials in `correlated` runs."""
_SLOW, _SLOWED = 0.15, 0.7
"""Share of trials in the slow mode of `bimodal`, and their value relative to the fast mode."""


@dataclass(frozen=True)
class Shape:
    """A distribution of noise factors."""

    draw: Draw
    median: float
    mean: float


@dataclass(frozen=True)
class Run:
    """Trials of k variants in n blocks, each block in random order."""

    values: Values
    """Shape (n, k)."""
    place: NDArray[np.int64]
    """Shape (n, k): position of each trial in the run, from 0."""


def _normal(random: np.random.Generator, count: int) -> Values:
    return 1 + 0.05 * random.standard_normal(count)


def _skewed(random: np.random.Generator, count: int) -> Values:
    return 0.5 + 0.5 * random.standard_exponential(count)


def _bimodal(random: np.random.Generator, count: int) -> Values:
    mode = np.where(random.random(count) < _SLOW, _SLOWED, 1.0)
    return mode * (1 + 0.02 * random.standard_normal(count))


def _correlated(random: np.random.Generator, count: int) -> Values:
    """A stationary first-order autoregressive series."""
    steps = random.standard_normal(count) * np.sqrt(1 - RELATED**2)
    series = np.empty(count)
    last = random.standard_normal()
    for at in range(count):
        series[at] = last = RELATED * last + steps[at]
    return 1 + 0.05 * series


def _median_of_modes() -> float:
    return float(np.median(_bimodal(np.random.default_rng(1), 4_000_001)))


SHAPES: Final[Mapping[str, Shape]] = {
    "normal": Shape(_normal, 1, 1),
    "skewed": Shape(_skewed, 0.5 + 0.5 * float(np.log(2)), 1),
    "bimodal": Shape(_bimodal, _median_of_modes(), _SLOW * _SLOWED + 1 - _SLOW),
    "correlated": Shape(_correlated, 1, 1),
}
"""Normal with 5 % deviation; exponential tail; 15 % of trials 30 % lower; autocorrelated."""


def simulate(
    random: np.random.Generator,
    shape: Shape,
    blocks: int,
    levels: Values,
    between: float = 0,
) -> Run:
    """Draw a run.

    Args:
        random: random number generator.
        shape: distribution of the noise.
        blocks: number of blocks (repeats).
        levels: true level of each variant, shape (k,).
        between: standard deviation of the logarithm of a block's common factor.
    """
    variants = len(levels)
    order = np.argsort(random.random((blocks, variants)), axis=1)
    place = order + variants * np.arange(blocks)[:, None]
    noise = shape.draw(random, blocks * variants)[place]
    common = np.exp(between * random.standard_normal((blocks, 1)))
    return Run(levels * common * noise, place)
