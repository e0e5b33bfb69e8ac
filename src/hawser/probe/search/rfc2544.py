"""Throughput by binary search (RFC 2544 section 26.1)."""

from __future__ import annotations

from hawser.probe.search.trial import Found, Goal, Log, Measure


def search(measure: Measure, goal: Goal) -> Found:
    """The highest load at which no trial lost more than the goal allows.

    The minimum load is tried first, then the maximum, then the middle of what is left.

    Raises:
        SearchError: the path loses frames at the minimum load.
    """
    log = Log(measure)
    log.require_low_load(goal, goal.seconds)
    if log(goal.max_load, goal.seconds).loss <= goal.loss:
        return log.found(goal.max_load, goal)
    low, high = goal.min_load, goal.max_load
    while high - low > goal.resolution * high:
        middle = (low + high) / 2
        if log(middle, goal.seconds).loss <= goal.loss:
            low = middle
        else:
            high = middle
    return log.found(low, goal)
