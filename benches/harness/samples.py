"""The measured values."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median


class Samples:
    """Values by peer, metric and round of a run of `rounds` rounds."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
        self._values: dict[tuple[str, str], dict[int, float]] = {}

    def add(self, peer: str, round_: int, values: Mapping[str, float]) -> None:
        """Keep what one sample gave.

        Raises:
            ValueError: a metric of this peer and round is there already.
        """
        for metric, value in values.items():
            by_round = self._values.setdefault((peer, metric), {})
            if round_ in by_round:
                raise ValueError(f"{peer}: {metric} was measured twice in round {round_ + 1}")
            by_round[round_] = value

    def of(self, peer: str, metric: str) -> Mapping[int, float]:
        """Values by round; empty where nothing was measured."""
        return self._values.get((peer, metric), {})

    def median(self, peer: str, metric: str) -> float | None:
        """Median, or None unless every round has its value."""
        values = self._complete(peer, metric)
        return median(values) if values else None

    def largest(self, peer: str, metric: str) -> float | None:
        """Largest value, or None unless every round has its value."""
        return max(self._complete(peer, metric), default=None)

    def ratio(self, metric: str, peer: str, other: str) -> float | None:
        """Median of `peer` over median of `other`, or None where one of them is incomplete."""
        above, below = self.median(peer, metric), self.median(other, metric)
        return above / below if above is not None and below else None

    def _complete(self, peer: str, metric: str) -> list[float]:
        values = list(self.of(peer, metric).values())
        return values if len(values) == self.rounds else []
