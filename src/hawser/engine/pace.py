"""Estimates of the remaining time from the trials done."""

from __future__ import annotations


class Pace:
    """Corrects expected durations by how long trials really took."""

    def __init__(self) -> None:
        self._expected = 0.0
        self._taken = 0.0

    def record(self, expected: float, taken: float) -> None:
        """Add a finished trial, with its duration in seconds."""
        self._expected += expected
        self._taken += taken

    def seconds(self, expected: float) -> float:
        """Give the corrected duration of trials with an expected duration, seconds."""
        return expected * (self._taken / self._expected if self._expected else 1.0)
