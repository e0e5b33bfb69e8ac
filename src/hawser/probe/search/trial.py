"""What a search is made of: trials, bounds, and what was found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


class SearchError(Exception):
    """The search has no result; the text says why."""


@dataclass(frozen=True)
class Trial:
    """One load for a while.

    Attributes:
        load: frames a second asked for.
        seconds: for how long.
        sent: frames that were sent.
        lost: frames of these that did not come; never those that were not sent.
    """

    load: float
    seconds: float
    sent: int
    lost: int

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
    """What is searched for.

    Attributes:
        min_load: frames a second at which the path must not lose more than `loss`.
        max_load: frames a second that are not exceeded.
        seconds: of a trial that decides.
        loss: share of frames that may be lost, 0 to 1.
        resolution: distance of the bounds at the end, as a share of the upper one.
    """

    min_load: float
    max_load: float
    seconds: float
    loss: float
    resolution: float


@dataclass(frozen=True)
class Found:
    """The highest load that got through.

    Attributes:
        load: frames a second.
        at_max_load: whether it is the goal's maximum load, so that more might have got through.
        seconds: of all trials together.
        trials: how many there were.
    """

    load: float
    at_max_load: bool
    seconds: float
    trials: int


class Log:
    """Carries out trials and keeps account of them."""

    def __init__(self, measure: Measure) -> None:
        self._measure = measure
        self.trials: list[Trial] = []

    def __call__(self, load: float, seconds: float) -> Trial:
        """Carry out a trial."""
        self.trials.append(self._measure(load, seconds))
        return self.trials[-1]

    def found(self, load: float, goal: Goal) -> Found:
        """The end of a search at a load."""
        return Found(
            load=load,
            at_max_load=load >= goal.max_load * (1 - 1e-9),
            seconds=sum(trial.seconds for trial in self.trials),
            trials=len(self.trials),
        )

    def require_low_load(self, goal: Goal, seconds: float) -> None:
        """See that the path works at all before its limit is searched.

        Raises:
            SearchError: it loses frames at the minimum load.
        """
        trial = self(goal.min_load, seconds)
        if trial.loss > goal.loss:
            raise SearchError(
                f"{trial.lost} of {trial.sent} frames were lost at the minimum load, "
                f"{goal.min_load:.0f} frames/s: the path loses frames without being full"
            )
