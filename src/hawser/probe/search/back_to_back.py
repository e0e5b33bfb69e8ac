"""Back-to-back frames and the buffer they fill (RFC 9004)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean, stdev

from hawser.probe.search.trial import Trial

Burst = Callable[[int], Trial]
"""Sends frames at the maximum rate there is."""

_RESOLUTION = 0.01
"""Of the burst's length."""


@dataclass(frozen=True)
class BackToBack:
    """Repeated searches for the longest burst without loss.

    Attributes:
        bursts: frames of each, in order.
        unbounded: whether a search ended at the longest burst that was tried.
    """

    bursts: tuple[int, ...]
    unbounded: bool

    @property
    def mean(self) -> float:
        """RFC 9004 section 6.4 reports the average."""
        return fmean(self.bursts)

    @property
    def deviation(self) -> float:
        """Standard deviation; 0 of a single search."""
        return stdev(self.bursts) if len(self.bursts) > 1 else 0.0

    def buffer_seconds(self, rate: float, throughput: float) -> float:
        """Corrected buffer time (RFC 9004 section 6.4, equation 4): frames leave while others come.

        Args:
            rate: frames a second of a burst.
            throughput: frames a second the device carries.
        """
        implied = self.mean / rate
        return implied * (1 - min(throughput / rate, 1.0))


def back_to_back(burst: Burst, longest: int, repetitions: int) -> BackToBack:
    """Search several times for the longest burst that loses nothing."""
    found = [_search(burst, longest) for _ in range(repetitions)]
    return BackToBack(tuple(found), unbounded=max(found) >= longest)


def _search(burst: Burst, longest: int) -> int:
    if burst(longest).lost == 0:
        return longest
    low, high = 0, longest
    while high - low > max(1, _RESOLUTION * high):
        middle = (low + high) // 2
        if burst(middle).lost == 0:
            low = middle
        else:
            high = middle
    return low
