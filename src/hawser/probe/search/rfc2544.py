"""Throughput by binary search (RFC 2544 section 26.1)."""

from __future__ import annotations

from hawser.probe.search.trial import Found, Goal, Log, Measure


def search(measure: Measure, goal: Goal) -> Found:
    """The highest load at which no trial lost more than the goal allows.

    The least load is tried first, then the greatest, then the middle of what is left.

    Raises:
        SearchError: the path loses frames at the least load.
    """
    log = Log(measure)
    log.require_low_load(goal, goal.seconds)
    if log(goal.greatest, goal.seconds).loss <= goal.loss:
        return log.found(goal.greatest, goal)
    low, high = goal.least, goal.greatest
    while high - low > goal.resolution * high:
        middle = (low + high) / 2
        if log(middle, goal.seconds).loss <= goal.loss:
            low = middle
        else:
            high = middle
    return log.found(low, goal)
