"""One measured value."""

from __future__ import annotations

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
