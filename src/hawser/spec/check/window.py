"""Bounds of failover and reversion times: a run must be able to exceed them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from hawser.spec.explain import Loc
from hawser.spec.measurement import Iperf3, offset, rounds
from hawser.spec.metric import CONVERGENCE
from hawser.spec.validate import Issue
from hawser.spec.workflow import Assertion, Event, Scenario

_TIMES = {name: "up" if name.startswith("reversion") else "down" for name in CONVERGENCE}


def windows(loc: Loc, item: Assertion, meant: Sequence[Scenario]) -> Iterator[Issue]:
    """Check that a time may be as long as its bound before the next event ends the observation.

    A time that is not over by then is censored, and counts as longer than any bound.
    """
    if item.at_most is None or not item.metric.endswith("_time") or item.metric not in _TIMES:
        return
    for scenario in meant:
        for event, seconds in _windows(scenario, item):
            if item.at_most > 1000 * seconds:
                message = (
                    f"found {item.at_most:g} ms, expected at most {1000 * seconds:g} ms, for which"
                    f" {event.element} is observed after {event.at}"
                )
                yield Issue((*loc, "at_most"), message)
                return


def _windows(scenario: Scenario, item: Assertion) -> Iterator[tuple[Event, float]]:
    """Events of the kind that the metric is about, with the time until the next or the end."""
    switched = sorted((e for e in scenario.events if e.change.up is not None), key=lambda e: e.at)
    end = _end(scenario, item)
    wanted = _TIMES[item.metric] == "up"
    last = switched[-1:] if end is not None else []
    following = [*((a, b.at) for a, b in pairwise(switched)), *((e, end) for e in last)]
    for event, until in following:
        before_end = end is None or event.at < end
        if event.change.up is wanted and before_end and until is not None:
            yield event, float(min(until, end) if end is not None else until) - float(event.at)


def _end(scenario: Scenario, item: Assertion) -> float | None:
    """End of the measurement by the events' clock; None if others run before it."""
    first = rounds(scenario.measurements)[0]
    ends = [
        offset(scenario.measurements, name) + float(each.warmup) + float(each.duration)
        for name, each in scenario.measurements.items()
        if name in first and isinstance(each, Iperf3) and item.measurement in (None, name)
    ]
    return min(ends, default=None)
