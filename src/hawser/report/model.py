"""What a report says, before it has a form."""

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
    """What the described network lets pass at most, counted on the wire, in the row's unit."""

    together: float
    """Over all paths at once (maximum flow)."""
    single: float
    """Over the best single path (widest path)."""


class RunValue(Model):
    """What one run gave."""

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
    """The course of the headline metric during one run."""

    variant: Labels
    trial: int
    points: tuple[tuple[float, float], ...]
    """Seconds after the measurement began, and value."""


class Comparison(Model):
    """The leader of a group against another variant of it, in the headline metric."""

    group: str
    leader: Labels
    other: Labels
    ratio: Ratio
    """Leader's median over the other's."""


class Exclusion(Model):
    """A run that is in no statistic."""

    trial: int
    repeat: int
    variant: Labels
    reason: str


class Checked(Model):
    """One row held against an assertion."""

    variant: Labels
    measurement: str
    value: float | None
    ok: bool


class Outcome(Model):
    """What became of an assertion."""

    text: str
    checked: tuple[Checked, ...]

    @property
    def ok(self) -> bool:
        """An assertion that nothing was held against has failed."""
        return bool(self.checked) and all(one.ok for one in self.checked)


class OrderFinding(Model):
    """Marks of the order of trials on a metric, all variants together.

    Each value is taken relative to its variant's median, so slopes are shares a trial.
    """

    measurement: str
    metric: str
    direction: Direction
    check: OrderCheck


class Layout(Model):
    """How variants are laid out: groups along the axis, and in each group the series."""

    axis: str
    """Name of what tells series apart; empty where nothing is varied."""
    group_axes: tuple[str, ...]
    groups: tuple[str, ...]
    """One empty name where only one axis varies."""
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
    """None where nothing was seen at its limit."""
    elements: tuple[str, ...]
    text: str
    runs: int
    """In which it was so."""
    of: int
    """Runs that were judged."""
    next: str
    """What was nearest to its limit besides, and how near; empty where nothing has one."""


class Report(Model):
    """A run, read and judged."""

    manifest: Manifest
    workflow: Workflow
    state: Literal["running", "incomplete", "done", "failed"]
    problems: tuple[str, ...]
    """Why the run must not be relied on."""
    warnings: tuple[str, ...]
    """What a careful reader should know."""
    finding: tuple[str, ...]
    """The main result in sentences."""
    layout: Layout
    rows: tuple[Row, ...]
    """By variant, measurement and metric, in the workflow's order."""
    passive: tuple[Row, ...]
    """Counters of links and daemons, likewise."""
    headline: tuple[Row, ...]
    """Of each variant the row of the metric that the run is about."""
    comparisons: tuple[Comparison, ...]
    bottlenecks: tuple[Bottleneck, ...]
    excluded: tuple[Exclusion, ...]
    outcomes: tuple[Outcome, ...]
    order: tuple[OrderFinding, ...]
    unmatched: tuple[str, ...]
    """Published figures that no row of this run belongs to."""
    series: tuple[TimeSeries, ...]

    @property
    def valid(self) -> bool:
        """Whether the run may be relied on. Assertions do not count here."""
        return not self.problems

    @property
    def passed(self) -> bool:
        """Whether all assertions hold."""
        return all(outcome.ok for outcome in self.outcomes)
