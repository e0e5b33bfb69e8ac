"""What a search is made of: trials, bounds, and what was found."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


class SearchError(Exception):
    """The search has no result; the text says why."""


@dataclass(frozen=True)
class Trial:
    """One load for a while.

    Attributes:
        load: intended load, frames a second.
        seconds: intended duration.
        sent: frames that were sent.
        lost: frames of these that did not come; never those that were not sent.
        discarded: frames left unsent by each attempt before, which was repeated for that reason.
        unsent: frames that were due and not sent; many only where they cannot change the decision.
    """

    load: float
    seconds: float
    sent: int
    lost: int
    discarded: tuple[int, ...] = ()
    unsent: int = 0

    def __post_init__(self) -> None:
        """See that the counts can be true.

        Raises:
            SearchError: nothing was sent, or more came than was sent.
        """
        if self.sent <= 0:
            raise SearchError(f"no frame was sent at {self.load:.0f} frames/s")
        if self.lost < 0:
            raise SearchError(
                f"{-self.lost} frames came that were never sent: the counters are wrong"
            )

    @property
    def loss(self) -> float:
        """Share of the frames sent that were lost, 0 to 1."""
        return self.lost / self.sent


Measure = Callable[[float, float], Trial]
"""Carries out a trial: frames a second, seconds."""


@dataclass(frozen=True)
class Goal:
    """Search goals in terms of RFC 9971; they differ by the goal loss ratio only.

    Attributes:
        min_load: frames a second at which the path must not lose more than the first goal allows.
        max_load: frames a second that are not exceeded.
        seconds: of a trial that decides.
        losses: goal loss ratios, ascending: share of frames that may be lost, 0 to 1.
        resolution: distance of the bounds at the end, as a share of the upper one.
        trials: how many decide at a load.
        exceed: share of these that may lose more, 0 to 1.
    """

    min_load: float
    max_load: float
    seconds: float
    losses: tuple[float, ...]
    resolution: float
    trials: int = 1
    exceed: float = 0.0

    @property
    def exceeding(self) -> int:
        """Trials at a load that may lose more than the goal loss ratio."""
        return int(self.trials * self.exceed + _ROUNDING)

    def width(self, loss: float) -> float:
        """Goal width: bounds nearer than the goal loss ratio say nothing (RFC 9971)."""
        return max(self.resolution, loss)


_ROUNDING = 1e-9


@dataclass(frozen=True)
class LowerBound:
    """The highest load that fulfils a goal: its relevant lower bound (RFC 9971).

    Attributes:
        goal_loss: the goal's loss ratio.
        load: intended load, frames a second.
        loss: share of frames lost there, by the trials that count.
        at_max_load: whether it is the maximum load, so that more might have got through.
    """

    goal_loss: float
    load: float
    loss: float
    at_max_load: bool

    @property
    def throughput(self) -> float:
        """Conditional throughput of RFC 9971, frames a second: what was forwarded at the load."""
        return self.load * (1 - self.loss)


class Log:
    """Carries out trials, keeps account of them, and of the time that is left."""

    def __init__(
        self,
        measure: Measure,
        limit: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._measure = measure
        self._limit = limit
        self._clock = clock
        self._end = clock() + limit
        self.trials: list[Trial] = []

    def __call__(self, load: float, seconds: float) -> Trial:
        """Carry out a trial.

        Raises:
            SearchError: it would end after the limit of the search.
        """
        if self._clock() + seconds > self._end:
            raise SearchError(
                f"no result after {len(self.trials)} trials: the next one would end after the "
                f"search_limit of {self._limit:g} s; a longer limit, shorter trials or a coarser "
                "resolution would help"
            )
        self.trials.append(self._measure(load, seconds))
        return self.trials[-1]

    @property
    def seconds(self) -> float:
        """Of all trials together."""
        return sum(trial.seconds for trial in self.trials)

    def passes(self, load: float, seconds: float, goal: Goal, loss: float) -> bool:
        """Tell whether a load fulfils the goal, by as many trials as decide that.

        Earlier trials at this load, of this duration, count too.
        """
        while True:
            trials = self._at(load, seconds)
            bad = sum(trial.loss > loss for trial in trials)
            if bad > goal.exceeding:
                return False
            if len(trials) - bad >= goal.trials - goal.exceeding:
                return True
            self(load, seconds)

    def _at(self, load: float, seconds: float) -> list[Trial]:
        return [trial for trial in self.trials if (trial.load, trial.seconds) == (load, seconds)]

    def lower_bound(self, load: float, goal: Goal, loss: float) -> LowerBound:
        """A load that fulfils the goal."""
        lost = conditional_loss([trial.loss for trial in self._at(load, goal.seconds)], goal)
        return LowerBound(loss, load, lost, at_max_load(load, goal))

    def require_low_load(self, goal: Goal, seconds: float) -> None:
        """See that the path works at all before its limit is searched.

        Raises:
            SearchError: it loses frames at the minimum load.
        """
        if not self.passes(goal.min_load, seconds, goal, goal.losses[0]):
            trial = self.trials[-1]
            raise SearchError(
                f"{trial.lost} of {trial.sent} frames were lost at the minimum load, "
                f"{goal.min_load:.0f} frames/s: the path loses frames without being full"
            )


def at_max_load(load: float, goal: Goal) -> bool:
    """Tell whether a load is the greatest that is tried."""
    return load >= goal.max_load * (1 - _ROUNDING)


def conditional_loss(losses: Sequence[float], goal: Goal) -> float:
    """Loss ratio of trials at one load: the quantile at 1 - exceed ratio (RFC 9971).

    Trials that were left out, since they could not have changed the decision, count as the worst.
    """
    needed = max(goal.trials, len(losses)) - goal.exceeding
    return sorted(losses)[needed - 1]
