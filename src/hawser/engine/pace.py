"""How long the rest takes, learnt from what was done."""

from __future__ import annotations


class Pace:
    """Corrects expected durations by how long trials really took."""

    def __init__(self) -> None:
        self._expected = 0.0
        self._taken = 0.0

    def record(self, expected: float, taken: float) -> None:
        """Note a trial that ended; seconds."""
        self._expected += expected
        self._taken += taken

    def seconds(self, expected: float) -> float:
        """Say how long will be taken for what is expected to take so many seconds."""
        return expected * (self._taken / self._expected if self._expected else 1.0)
