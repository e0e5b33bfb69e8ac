"""The concave utility of a pair's rate, in pieces, and the costs that only break ties.

A pair whose rate is below 1/128 of its demand gains 1 for each bit/s more; each time that its share
doubles, a bit/s more is worth half as much. So what several pairs compete for goes to the one with
the smaller share of its demand, to within a factor of two: max-min fairness of shares but for the
width of a piece. The hop's and the price's costs of the longest path are less than the smallest
slope: they choose between paths, and never cost goodput.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from hawser.optimise.wan import Wan
from hawser.spec.route import Hop

PIECES: Final = 8
SLOPES: Final = 0.5 ** np.arange(PIECES)
"""Utility of a bit/s in each piece."""
_ENDS: Final = 0.5 ** np.arange(PIECES - 1, -1, -1)
WIDTHS: Final = np.diff(_ENDS, prepend=0.0)
"""Widths of the pieces, as shares of the demand."""

MOST_HOPS: Final = 2
_MOST_COST: Final = SLOPES[-1] / MOST_HOPS / 2
"""Cost of a bit/s over the dearest tunnel."""
HOP_COST: Final = _MOST_COST / 2
"""Cost of a bit/s over any tunnel; the other half of the most is the price's."""


def utility(rate: float, demand: float) -> float:
    """Give the utility of a rate, at most that demanded."""
    if demand <= 0:
        return 0.0
    filled = np.clip(rate - demand * (_ENDS - WIDTHS), 0.0, demand * WIDTHS)
    return float(filled @ SLOPES)


def costs(wan: Wan, tunnels: tuple[Hop, ...]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Give the costs of a bit/s over tunnels, shape (tunnels,)."""
    found = [sum(wan.ports[stop].cost_per_gb for stop in each) for each in tunnels]
    dearest = max(found, default=0.0) or 1.0
    return np.array([HOP_COST * (1.0 + price / dearest) for price in found], dtype=np.float64)
