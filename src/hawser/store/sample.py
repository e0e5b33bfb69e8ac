"""One measured value, and the table they all go into."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hawser.spec.model import Model

Direction = Literal["forward", "reverse", "both", "none"]
"""Forward is from a measurement's `from` to its `to`; none where it makes no sense."""


Value = Annotated[float, Field(ge=-1e100, le=1e100)]
"""A finite number. The bounds keep squares and sums of any numbers finite too."""


class Sample(Model):
    """A number that says what it counts, its unit and its direction. A row of `samples.parquet`."""

    measurement: str
    """Name of the measurement in the workflow; `passive` for counters."""
    metric: str
    """What is counted, such as `goodput`. Names are stable: people script against them."""
    unit: str
    value: Value
    direction: Direction = "none"
    subject: str = ""
    """The element counted, such as `path:p1:forward` or `daemon:gw1`; empty for the whole."""
    kind: Literal["summary", "interval", "evidence"] = "summary"
    """A trial's result, one point of its time series, or what explains the result."""
    censored: bool = False
    """Whether what was waited for had not happened at the end: the true value is larger."""
    time: Value | None = None
    """Of an interval: its end, in seconds after the measurement began."""
