"""When a flow has its rate again after a change in the network.

The rate-derived method of RFC 6412: the rate is sampled at short intervals, and convergence has
ended when it is what the changed network gives, and stays so for a validation time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

WINDOW: Final = 0.05
"""Seconds over which a rate is taken: 100 full packets of 25 Mbit/s."""
VALIDATION: Final = 0.5
"""Seconds for which the rate must hold, in the mean (RFC 6412's sustained validation time)."""
SHARE: Final = 0.9
"""Of the rate that is waited for."""
_STEP: Final = 0.01
"""Seconds between the beginnings of windows."""


class Course:
    """What had arrived at which time."""

    def __init__(self, readings: Sequence[tuple[float, float]]) -> None:
        """Take readings: seconds, and bytes that had arrived by then; both ascending."""
        points = np.array(readings, dtype=float).reshape(-1, 2)
        self._times, self._bytes = points[:, 0], points[:, 1]

    def rates(self, starts: NDArray[np.float64], ends: NDArray[np.float64]) -> NDArray[np.float64]:
        """Bits a second between each start and its end; straight lines between readings."""
        if not len(self._times):
            return np.zeros_like(starts)
        moved = self._at(ends) - self._at(starts)
        rates: NDArray[np.float64] = 8 * moved / np.maximum(ends - starts, 1e-9)
        return rates

    def _at(self, times: NDArray[np.float64]) -> NDArray[np.float64]:
        moved: NDArray[np.float64] = np.interp(times, self._times, self._bytes)
        return moved

    def steady(self, start: float, end: float) -> float:
        """Median rate, bit/s, of the later half of a time; 0 where it is too short for one."""
        starts = np.arange((start + end) / 2, end - WINDOW, _STEP)
        return float(np.median(self.rates(starts, starts + WINDOW))) if len(starts) else 0.0

    def recovery(self, event: float, end: float, level: float) -> float:
        """Seconds from an event until the rate is back.

        It is back at the end of the first window in which it is nine tenths of the level or more,
        and from whose beginning on it is so in the mean: at most a window too late, never too
        early, also where what was held back arrives at once. If that is the window at the event
        itself, nothing was ever missing.

        Args:
            event: when the network changed.
            end: until when it is looked at.
            level: rate that is waited for, bit/s.

        Returns:
            All of the time where it does not come back, or there is no level to come back to.
        """
        starts = np.arange(event, end - WINDOW, _STEP)
        if level <= 0 or not len(starts):
            return end - event
        now = self.rates(starts, starts + WINDOW)
        held = self.rates(starts, np.minimum(starts + VALIDATION, end))
        (back,) = np.nonzero(np.minimum(now, held) >= SHARE * level)
        if not len(back):
            return end - event
        return 0.0 if back[0] == 0 else float(starts[back[0]]) + WINDOW - event

    def least(self, start: float, end: float, seconds: float) -> float | None:
        """Lowest rate, bit/s, over any time so long; None where there is none so long."""
        starts = np.arange(start, end - seconds + _STEP / 2, _STEP)
        return float(self.rates(starts, starts + seconds).min()) if len(starts) else None
