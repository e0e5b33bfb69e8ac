"""Throughput by MLRsearch (RFC 9971): short trials first, long ones only where they decide."""

from __future__ import annotations

import math

from MLRsearch import (
    AbstractMeasurer,
    Config,
    GoalResult,
    MeasurementResult,
    MultipleLossRatioSearch,
    SearchGoal,
)

from hawser.probe.search.trial import Goal, Log, LowerBound, SearchError, at_max_load

_SHORTEST = 1 / 30
"""First trials are this share of the deciding ones: 2 s of 60 s. On simulated policers of 50 000 to
1 million frames/s 1/60 took up to 0.29 of the trial seconds of a binary search, 1/30 up to 0.21."""

_SHORTEST_OF_SEVERAL = 1.0
"""Seconds of the first trials, at least, where several decide."""

_LOW_LOAD = 1 / 10
"""The trial at the minimum load is to find broken paths, not to decide anything."""


def search(log: Log, goal: Goal) -> tuple[LowerBound, ...]:
    """The highest load for each goal loss ratio, all in one search.

    Raises:
        SearchError: the path loses frames at the minimum load, or the search took too long.
    """
    log.require_low_load(goal, goal.seconds * _LOW_LOAD)
    aims = [_search_goal(goal, loss) for loss in goal.losses]
    config = Config()
    config.goals = aims
    # in this order: each is checked against the other's default
    config.max_load, config.min_load = max(goal.max_load, 9002.0), goal.min_load
    config.max_load = goal.max_load
    config.search_duration_max = math.inf  # the log ends a search that takes too long
    config.warmup_duration = 0.0
    try:
        results = MultipleLossRatioSearch(config=config).search(_Measurer(log), debug=_silent)
    except RuntimeError as error:
        raise SearchError(_reason(str(error))) from error
    return tuple(_bound(results[aim], goal, aim.loss_ratio) for aim in aims)


def _bound(result: GoalResult, goal: Goal, loss: float) -> LowerBound:
    """The relevant lower bound of a goal, as a load: the library gives what was forwarded."""
    bound = result.relevant_lower_bound
    if bound is None:
        raise SearchError("MLRsearch found no load that gets through")
    (trials,) = bound.target_to_stat.values()
    load = float(bound)
    return LowerBound(loss, load, trials.pessimistic_loss_ratio, at_max_load(load, goal))


def _reason(text: str) -> str:
    if text.startswith("No lower bound"):
        return "frames were lost at the minimum load too: the path loses frames without being full"
    return f"MLRsearch: {text}"


def _search_goal(goal: Goal, loss: float) -> SearchGoal:
    first = goal.seconds * _SHORTEST
    if goal.trials > 1:
        first = min(goal.seconds, max(first, _SHORTEST_OF_SEVERAL))
    return SearchGoal(
        loss_ratio=loss,
        exceed_ratio=goal.exceed,
        relative_width=goal.width(loss),
        initial_trial_duration=first,
        final_trial_duration=goal.seconds,
        duration_sum=goal.seconds * goal.trials,
        preceding_targets=2,
        expansion_coefficient=2,
    )


class _Measurer(AbstractMeasurer):  # type: ignore[misc]  # MLRsearch has no types
    """Trials in MLRsearch's words."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def measure(self, intended_duration: float, intended_load: float) -> MeasurementResult:
        """Carry out one trial."""
        trial = self._log(intended_load, intended_duration)
        return MeasurementResult(
            intended_duration=intended_duration,
            intended_load=intended_load,
            offered_count=trial.sent,
            loss_count=trial.lost,
        )


def _silent(_text: object) -> None:
    """Trials are kept by the log."""
