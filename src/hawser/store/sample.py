"""One measured value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import Annotated, Literal

from pydantic import Field

from hawser.spec.model import Model

Direction = Literal["forward", "reverse", "both", "none"]
"""Forward is from a measurement's `from` to its `to`; `none` if no direction applies."""


Value = Annotated[float, Field(ge=-1e100, le=1e100)]
"""A finite number. The bounds keep squares and sums of any numbers finite too."""


class Sample(Model):
    """One measured value with its metric, unit and direction: a row of `samples.parquet`."""

    measurement: str
    """Name of the measurement in the workflow; `passive` for counters."""
    metric: str
    """What is measured, such as `goodput`. Names are stable: people script against them."""
    unit: str
    value: Value
    direction: Direction = "none"
    subject: str = ""
    """The element measured, such as `path:p1:forward` or `daemon:gw1`; empty for the whole."""
    kind: Literal["summary", "interval", "evidence"] = "summary"
    """A trial's result, a point of its time series, or evidence that explains the result."""
    censored: bool = False
    """Whether the measurement ended before the awaited event: the true value is larger."""
    time: Value | None = None
    """End of the interval, in seconds after the measurement began."""


def of_trial(events: Sequence[Sample]) -> tuple[float, bool]:
    """One value of a trial, whose events are not independent: their median.

    Returns:
        The median, and whether it is censored; then it is a lower bound of the true one.
    """
    middle = median(math.inf if each.censored else each.value for each in events)
    if math.isfinite(middle):
        return middle, False
    return median(each.value for each in events), True
