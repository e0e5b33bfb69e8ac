"""The values that a bench measured."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median


class Samples:
    """Values by peer, metric and round, for a run of `rounds` rounds."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
        self._values: dict[tuple[str, str], dict[int, float]] = {}

    def add(self, peer: str, round_: int, values: Mapping[str, float]) -> None:
        """Add the values of one sample.

        Raises:
            ValueError: the peer already has a value of a metric for this round.
        """
        for metric, value in values.items():
            by_round = self._values.setdefault((peer, metric), {})
            if round_ in by_round:
                raise ValueError(f"{peer}: {metric} was measured twice in round {round_ + 1}")
            by_round[round_] = value

    def of(self, peer: str, metric: str) -> Mapping[int, float]:
        """Values by round; empty if nothing was measured."""
        return self._values.get((peer, metric), {})

    def median(self, peer: str, metric: str) -> float | None:
        """Median, or None if any round lacks a value."""
        values = self._complete(peer, metric)
        return median(values) if values else None

    def largest(self, peer: str, metric: str) -> float | None:
        """Largest value, or None if any round lacks a value."""
        return max(self._complete(peer, metric), default=None)

    def ratio(self, metric: str, peer: str, other: str) -> float | None:
        """Median of `peer` divided by median of `other`, or None if either is incomplete."""
        above, below = self.median(peer, metric), self.median(other, metric)
        return above / below if above is not None and below else None

    def _complete(self, peer: str, metric: str) -> list[float]:
        values = list(self.of(peer, metric).values())
        return values if len(values) == self.rounds else []
