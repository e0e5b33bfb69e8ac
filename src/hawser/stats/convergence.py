"""How long a flow takes to reach its rate again after a change in the network.

The rate-derived method of RFC 6412: the rate is sampled at short intervals, and convergence ends
when it reaches what the changed network can carry and holds that for a validation time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

WINDOW: Final = 0.05
"""Seconds over which a rate is measured: 100 full packets at 25 Mbit/s."""
VALIDATION: Final = 0.5
"""Seconds for which the mean rate must hold (RFC 6412's sustained convergence validation time)."""
SHARE: Final = 0.9
"""Share of the expected rate that counts as recovered."""
_STEP: Final = 0.01
"""Seconds between the beginnings of windows."""


class Arrivals:
    """Bytes received over time."""

    def __init__(self, readings: Sequence[tuple[float, float]]) -> None:
        """Take readings of time in seconds and bytes received until then, both ascending."""
        points = np.array(readings, dtype=float).reshape(-1, 2)
        self._times, self._bytes = points[:, 0], points[:, 1]

    def rates(self, starts: NDArray[np.float64], ends: NDArray[np.float64]) -> NDArray[np.float64]:
        """Mean rate, bit/s, from each start to its end; linear between readings."""
        if not len(self._times):
            return np.zeros_like(starts)
        moved = self._at(ends) - self._at(starts)
        rates: NDArray[np.float64] = 8 * moved / np.maximum(ends - starts, 1e-9)
        return rates

    def _at(self, times: NDArray[np.float64]) -> NDArray[np.float64]:
        moved: NDArray[np.float64] = np.interp(times, self._times, self._bytes)
        return moved

    def steady(self, start: float, end: float) -> float:
        """Median rate, bit/s, of the second half of an interval; 0 if that is too short."""
        starts = np.arange((start + end) / 2, end - WINDOW, _STEP)
        return float(np.median(self.rates(starts, starts + WINDOW))) if len(starts) else 0.0

    def recovery(self, event: float, end: float, level: float) -> float | None:
        """Seconds from an event until the rate has recovered.

        It has recovered at the end of the first window with nine tenths of the level or more, if
        the mean from the start of that window over the validation time is as high. The result is at
        most one window too long and never too short, even if held-back packets arrive in a burst.
        If that window starts at the event, the rate never fell and the result is 0.

        Args:
            event: time of the change, s.
            end: end of the search, s.
            level: expected rate, bit/s.

        Returns:
            None if the rate does not recover before the end, or the level is 0.
        """
        starts = np.arange(event, end - WINDOW, _STEP)
        if level <= 0 or not len(starts):
            return None
        now = self.rates(starts, starts + WINDOW)
        held = self.rates(starts, np.minimum(starts + VALIDATION, end))
        (back,) = np.nonzero(np.minimum(now, held) >= SHARE * level)
        if not len(back):
            return None
        return 0.0 if back[0] == 0 else float(starts[back[0]]) + WINDOW - event

    def longest_gap(self, start: float, end: float) -> float:
        """Longest time, s, without a reading that touches an interval. Rates within are unknown."""
        first, last = np.searchsorted(self._times, [start, end])
        gaps = np.diff(self._times[max(first - 1, 0) : last + 1])
        return float(gaps.max(initial=0.0))

    def least(self, start: float, end: float, seconds: float) -> float | None:
        """Lowest rate, bit/s, over any interval of this length; None if the time is shorter."""
        starts = np.arange(start, end - seconds + _STEP / 2, _STEP)
        return float(self.rates(starts, starts + seconds).min()) if len(starts) else None
