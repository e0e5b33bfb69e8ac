"""Throughput by MLRsearch (RFC 9971): short trials first, long ones only where they decide."""

from __future__ import annotations

from MLRsearch import (
    AbstractMeasurer,
    Config,
    MeasurementResult,
    MultipleLossRatioSearch,
    SearchGoal,
)

from hawser.probe.search.trial import Found, Goal, Log, Measure, SearchError

_SHORTEST = 1 / 30
"""First trials are this share of the deciding ones: 2 s of 60 s. On simulated policers of 50 000 to
1 million frames/s 1/60 took up to 0.29 of the trial seconds of a binary search, 1/30 up to 0.21."""

_LOW_LOAD = 1 / 10
"""The trial at the minimum load is to find broken paths, not to decide anything."""


def search(measure: Measure, goal: Goal, limit: float) -> Found:
    """The conditional throughput for the goal of RFC 2544: no trial may exceed the loss ratio.

    Args:
        measure: carries out a trial.
        goal: with `seconds` as the sum of trials at a load.
        limit: seconds that all trials may take together.

    Raises:
        SearchError: the path loses frames at the minimum load, or the search took too long.
    """
    log = Log(measure)
    log.require_low_load(goal, goal.seconds * _LOW_LOAD)
    aim = _search_goal(goal)
    config = Config()
    config.goals = [aim]
    # in this order: each is checked against the other's default
    config.max_load, config.min_load = max(goal.max_load, 9002.0), goal.min_load
    config.max_load = goal.max_load
    config.search_duration_max = limit
    config.warmup_duration = 0.0
    try:
        results = MultipleLossRatioSearch(config=config).search(_Measurer(log), debug=_silent)
    except RuntimeError as error:
        raise SearchError(_reason(str(error))) from error
    throughput = results[aim].conditional_throughput
    if throughput is None:
        raise SearchError("MLRsearch found no load that gets through")
    return log.found(float(throughput), goal)


def _reason(text: str) -> str:
    if text.startswith("No lower bound"):
        return "frames were lost at the minimum load too: the path loses frames without being full"
    return f"MLRsearch: {text}"


def _search_goal(goal: Goal) -> SearchGoal:
    return SearchGoal(
        loss_ratio=goal.loss,
        exceed_ratio=0.0,
        # RFC 9971: a narrower width than the loss ratio cannot be told apart
        relative_width=max(goal.resolution, goal.loss),
        initial_trial_duration=goal.seconds * _SHORTEST,
        final_trial_duration=goal.seconds,
        duration_sum=goal.seconds,
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
