"""The content of a report, independent of its format."""

from __future__ import annotations

from typing import Literal

from hawser.spec.model import Model
from hawser.spec.workflow import Labels, Workflow
from hawser.stats import OrderCheck, Ratio, Summary
from hawser.stats.bottleneck import Kind
from hawser.store import Direction, Manifest


class Published(Model):
    """A published figure, in the row's unit."""

    value: float
    source: str


class Bounds(Model):
    """The most that the described network can carry, counted on the wire, in the row's unit."""

    together: float
    """Over all paths at once (maximum flow)."""
    single: float
    """Over the best single path (widest path)."""


class RunValue(Model):
    """The value of one run."""

    trial: int
    repeat: int
    value: float


class Row(Model):
    """One metric of one variant."""

    variant: Labels
    measurement: str
    metric: str
    unit: str
    direction: Direction
    subject: str
    summary: Summary
    runs: tuple[RunValue, ...]
    """In the order of trials."""
    reference: Published | None = None
    bounds: Bounds | None = None

    @property
    def values(self) -> tuple[float, ...]:
        """One number a run."""
        return tuple(run.value for run in self.runs)


class TimeSeries(Model):
    """The headline metric over the time of one run."""

    variant: Labels
    trial: int
    points: tuple[tuple[float, float], ...]
    """Seconds after the measurement began, and value."""


class Comparison(Model):
    """The best variant of a group compared with another, in the headline metric."""

    group: str
    leader: Labels
    other: Labels
    ratio: Ratio
    """Leader's median over the other's."""


class Exclusion(Model):
    """A run left out of all statistics."""

    trial: int
    repeat: int
    variant: Labels
    reason: str


class Checked(Model):
    """One row checked against an assertion."""

    variant: Labels
    measurement: str
    value: float | None
    ok: bool


class Outcome(Model):
    """The result of an assertion."""

    text: str
    checked: tuple[Checked, ...]

    @property
    def ok(self) -> bool:
        """Whether it holds for every row; an assertion without rows has failed."""
        return bool(self.checked) and all(one.ok for one in self.checked)


class OrderFinding(Model):
    """Effect of the order of trials on a metric, over all variants.

    Values are relative to their variant's median, so slopes are shares per trial.
    """

    measurement: str
    metric: str
    direction: Direction
    check: OrderCheck


class Layout(Model):
    """How variants are laid out: groups, and within each group the series."""

    axis: str
    """Name of the axis that gives the series; empty if nothing varies."""
    group_axes: tuple[str, ...]
    groups: tuple[str, ...]
    """One empty name if only one axis varies."""
    series: tuple[str, ...]

    def group(self, variant: Labels) -> str:
        """The group of a variant."""
        return " / ".join(variant.get(axis, "") for axis in self.group_axes)

    def name(self, variant: Labels) -> str:
        """The series of a variant."""
        return variant.get(self.axis, "") if self.axis else "all"


class Bottleneck(Model):
    """What limited a measurement in most runs of a variant."""

    variant: Labels
    measurement: str
    kind: Kind | None
    """None if nothing was at its limit."""
    elements: tuple[str, ...]
    text: str
    runs: int
    """Runs with this result."""
    of: int
    """Runs judged."""
    next: str
    """The next element near its limit, with its utilisation; empty if no other has a limit."""


class Report(Model):
    """The judged results of a run."""

    manifest: Manifest
    workflow: Workflow
    state: Literal["running", "incomplete", "done", "failed"]
    problems: tuple[str, ...]
    """Why the results are not valid."""
    warnings: tuple[str, ...]
    """What limits the conclusions."""
    finding: tuple[str, ...]
    """The main result in sentences."""
    layout: Layout
    rows: tuple[Row, ...]
    """By variant, measurement and metric, in the workflow's order."""
    passive: tuple[Row, ...]
    """Counters of links and daemons, likewise."""
    headline: tuple[Row, ...]
    """Each variant's row of the metric that the run is about."""
    comparisons: tuple[Comparison, ...]
    bottlenecks: tuple[Bottleneck, ...]
    excluded: tuple[Exclusion, ...]
    outcomes: tuple[Outcome, ...]
    order: tuple[OrderFinding, ...]
    unmatched: tuple[str, ...]
    """Published values without a row in this run."""
    series: tuple[TimeSeries, ...]

    @property
    def valid(self) -> bool:
        """Whether the results are valid, regardless of assertions."""
        return not self.problems

    @property
    def passed(self) -> bool:
        """Whether all assertions hold."""
        return all(outcome.ok for outcome in self.outcomes)
