"""Who attacks whom, when and for how long: all by the seed, nothing by the clock."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hawser.spec.attack import ATTACK_SECONDS, GUARD_SECONDS, SLOT_SECONDS, AttackKind, Attacks


@dataclass(frozen=True)
class Episode:
    """One attack. Times are seconds after the begin of all."""

    number: int
    """From 1, in the order of time."""
    kind: AttackKind
    source: str
    """Node that attacks."""
    target: str
    """Node that is attacked."""
    begin: float
    seconds: float
    seed: int
    """Of its ports and words."""

    @property
    def name(self) -> str:
        """Name of its files."""
        return f"{self.number:03d}-{self.kind}"

    @property
    def quiet(self) -> tuple[float, float]:
        """Interval in which its host does nothing else."""
        return self.begin - GUARD_SECONDS, self.begin + self.seconds + GUARD_SECONDS


def seeded(seed: int | str) -> random.Random:
    """Give random numbers that are always the same, for traffic; nothing secret is made of them."""
    return random.Random(seed)  # noqa: S311


def episodes(attacks: Attacks) -> tuple[Episode, ...]:
    """Deal all attacks to hosts, with gaps at random between those of one host."""
    chance = seeded(attacks.seed)
    kinds = list(attacks.kinds) * attacks.episodes
    chance.shuffle(kinds)
    hosts = list(attacks.attacking)
    chance.shuffle(hosts)
    made = [
        (begin, kind, host)
        for place, host in enumerate(hosts)
        for begin, kind in _begins(chance, kinds[place :: len(hosts)], float(attacks.duration))
    ]
    targets = list(attacks.target) * -(-len(made) // len(attacks.target))
    chance.shuffle(targets)
    return tuple(
        Episode(
            number,
            kind,
            host,
            targets[number - 1],
            begin,
            chance.uniform(*ATTACK_SECONDS),
            chance.getrandbits(32),
        )
        for number, (begin, kind, host) in enumerate(sorted(made), 1)
    )


def _begins(
    chance: random.Random, kinds: Sequence[AttackKind], duration: float
) -> Iterator[tuple[float, AttackKind]]:
    """Give each attack of a host a slot; the time that is left is spread at random."""
    left = max(0.0, duration - len(kinds) * SLOT_SECONDS)
    gaps = sorted(chance.uniform(0, left) for _ in kinds)
    for place, (gap, kind) in enumerate(zip(gaps, kinds, strict=True)):
        yield gap + place * SLOT_SECONDS + GUARD_SECONDS, kind


class Free:
    """When a host may have benign sessions: while it does not attack."""

    def __init__(self, every: Sequence[Episode], host: str, duration: float) -> None:
        """Take the quiet times of a host."""
        self._quiet = sorted(one.quiet for one in every if one.source == host)
        self._duration = duration

    def begin(self, now: float, seconds: float) -> float | None:
        """Give the earliest begin from now on of a session of at most so many seconds.

        Returns:
            Seconds after the begin of all; None if there is no time left for it.
        """
        for first, last in self._quiet:
            if now + seconds > first and now < last:
                now = last
        return now if now + seconds <= self._duration else None
