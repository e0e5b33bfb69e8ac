"""Throughput by binary search (RFC 2544 section 26.1)."""

from __future__ import annotations

from hawser.probe.search.trial import Goal, Log, LowerBound


def search(log: Log, goal: Goal) -> tuple[LowerBound, ...]:
    """The highest load for each goal loss ratio.

    The minimum load is tried first, then the maximum, then the middle of what is left. Later goals
    take the same way, and use the trials of earlier ones as far as it is common.

    Raises:
        SearchError: the path loses frames at the minimum load, or the search took too long.
    """
    log.require_low_load(goal, goal.seconds)
    return tuple(_search(log, goal, loss) for loss in goal.losses)


def _search(log: Log, goal: Goal, loss: float) -> LowerBound:
    low, high = goal.min_load, goal.max_load
    if log.passes(high, goal.seconds, goal, loss):
        return log.lower_bound(high, goal, loss)
    while high - low > goal.width(loss) * high:
        middle = (low + high) / 2
        if log.passes(middle, goal.seconds, goal, loss):
            low = middle
        else:
            high = middle
    return log.lower_bound(low, goal, loss)
