"""The order of trials, and what is left of it. Pure.

Variants are interleaved in blocks: each repeat is a random permutation of all variants, so that a
slow hour of the machine affects all alike (Abedi and Brecht, ICPE 2017).
"""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from hawser.spec.workflow import Labels, Until
from hawser.store.manifest import TrialPlan

ATTEMPTS = 3
"""How often a trial is tried before it is given up."""

Variant = tuple[tuple[str, str], ...]
"""A variant's labels."""


def order(variants: Sequence[Labels], repeat: int, seed: int) -> tuple[TrialPlan, ...]:
    """Every variant `repeat` times, in seeded random order, numbered from 1."""
    source = random.Random(seed)  # noqa: S311 (an order, not a secret)
    blocks = [
        (variant, block)
        for block in range(1, repeat + 1)
        for variant in source.sample(list(variants), len(variants))
    ]
    return tuple(
        TrialPlan(trial=number, variant=variant, repeat=block)
        for number, (variant, block) in enumerate(blocks, start=1)
    )


def more(
    planned: Sequence[TrialPlan], variants: Sequence[Labels], repeat: int, seed: int
) -> tuple[TrialPlan, ...]:
    """What must be appended to the order for so many repeats: the blocks that are not planned."""
    done = max(plan.repeat for plan in planned)
    first = max(plan.trial for plan in planned) + 1
    blocks = [plan for plan in order(variants, repeat, seed) if plan.repeat > done]
    return tuple(
        plan.model_copy(update={"trial": number}) for number, plan in enumerate(blocks, first)
    )


def repeats(done: int, until: Until, precise: Callable[[int], bool]) -> int:
    """Say how many repeats a run is to have, once `done` are.

    Stopping as soon as an interval is narrow picks intervals that are too narrow: coverage fell to
    0.91 in simulation. So it is looked at rarely, with a third more repeats each time, and when it
    is narrow enough a third more follow without a look: 0.93 to 0.95.

    Args:
        done: repeats that are through.
        until: the precision wanted.
        precise: tells whether so many first repeats reach it.
    """
    look = until.least
    while look <= done:
        larger = min(until.limit, math.ceil(look * 4 / 3))
        if look >= until.limit or precise(look):
            return larger
        look = larger
    return look


@dataclass(frozen=True)
class Progress:
    """The progress of a run."""

    planned: tuple[TrialPlan, ...]
    """The order so far, repeated trials included."""
    valid: Mapping[int, bool]
    """The finished trials: number -> whether it counts."""
    forgiven: frozenset[int] = frozenset()
    """Trials finished before a resume; their failures do not count as attempts."""

    def pending(self) -> tuple[TrialPlan, ...]:
        """The remaining trials in order, without those of variants that were given up."""
        return tuple(
            plan
            for plan in self.planned
            if plan.trial not in self.valid and _variant(plan) not in self._lost
        )

    def retries(self) -> tuple[TrialPlan, ...]:
        """Void trials to repeat, which must be appended to the order."""
        attempts: dict[tuple[Variant, int], list[TrialPlan]] = defaultdict(list)
        for plan in self.planned:
            attempts[_variant(plan), plan.repeat].append(plan)
        again = [plans[0] for plans in attempts.values() if self._deserve_another(plans)]
        first = max((plan.trial for plan in self.planned), default=0) + 1
        return tuple(
            plan.model_copy(update={"trial": number}) for number, plan in enumerate(again, first)
        )

    def _deserve_another(self, attempts: Sequence[TrialPlan]) -> bool:
        counted = [plan for plan in attempts if plan.trial not in self.forgiven]
        all_void = not any(self.valid.get(plan.trial, True) for plan in attempts)
        return all_void and len(counted) < ATTEMPTS and _variant(attempts[0]) not in self._lost

    @cached_property
    def _lost(self) -> frozenset[Variant]:
        """Variants with `ATTEMPTS` void trials and no valid one: they are given up."""
        finished = [plan for plan in self.planned if plan.trial in self.valid]
        good = {_variant(plan) for plan in finished if self.valid[plan.trial]}
        void = Counter(
            _variant(plan)
            for plan in finished
            if not self.valid[plan.trial] and plan.trial not in self.forgiven
        )
        return frozenset(v for v, count in void.items() if count >= ATTEMPTS and v not in good)


def _variant(trial: TrialPlan) -> Variant:
    return tuple(sorted(trial.variant.items()))
