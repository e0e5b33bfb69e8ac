"""One measured value, and the table they all go into."""

from __future__ import annotations

from typing import Literal

from pydantic import FiniteFloat

from hawser.spec.model import Model

Direction = Literal["forward", "reverse", "both", "none"]
"""Forward is from a measurement's `from` to its `to`; none where it makes no sense."""


class Sample(Model):
    """A number that says what it counts, its unit and its direction. A row of `samples.parquet`."""

    measurement: str
    """Name of the measurement in the workflow; `passive` for counters."""
    metric: str
    """What is counted, such as `goodput`. Names are stable: people script against them."""
    unit: str
    value: FiniteFloat
    direction: Direction = "none"
    subject: str = ""
    """The element counted, such as `path:p1:forward` or `daemon:gw1`; empty for the whole."""
    kind: Literal["summary", "interval"] = "summary"
    """A trial's result, or one point of its time series."""
    time: float | None = None
    """Of an interval: its end, in seconds after the measurement began."""
