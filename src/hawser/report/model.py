"""The content of a report, independent of its format."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hawser.spec.model import Model
from hawser.spec.workflow import Labels, Workflow
from hawser.stats import Effect, OrderCheck, Summary, Verdict
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
    """The median of its events, where there are several; a lower bound of it if censored."""
    censored: bool = False
    """Whether the true value is larger: the awaited event had not happened when the trial ended."""
    events: tuple[Annotated[float, Field(allow_inf_nan=True)], ...] = ()
    """The value of each event, where there are several; infinite where censored."""

    @property
    def extremes(self) -> tuple[float, float]:
        """Smallest and largest value of an event."""
        every = self.events or (float("inf") if self.censored else self.value,)
        return min(every), max(every)


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

    with_void: float | None = None
    """Median over void trials too; None where none of them has a value."""

    @property
    def values(self) -> tuple[float, ...]:
        """One number a run."""
        return tuple(run.value for run in self.runs)

    @property
    def blocks(self) -> dict[int, float]:
        """Repeat -> value, infinite where censored."""
        return {r.repeat: float("inf") if r.censored else r.value for r in self.runs}


class TimeSeries(Model):
    """The headline metric over the time of one run."""

    variant: Labels
    trial: int
    points: tuple[tuple[float, float], ...]
    """Seconds after the measurement began, and value."""


class Comparison(Model):
    """One variant compared with another, in the headline metric."""

    group: str
    variant: Labels
    """The leader of the group, or any where the workflow has a baseline."""
    against: Labels
    """Another variant of the group, or the baseline."""
    effect: Effect
    """Corrected for all comparisons of the run."""


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
    low: float | None = None
    """One-sided 95 % bound: the true value is at least this."""
    high: float | None = None
    """Likewise: at most this."""
    n: int = 0
    """Trials, or blocks, that were asked."""
    p: float | None = None
    """Probability of what the verdict rests on if it were wrong, corrected over the workflow."""
    verdict: Verdict
    reason: str = ""
    """Why it is undecided, besides the scatter."""
    ok: bool
    """Whether it passes: an undecided one as the workflow says."""


class Outcome(Model):
    """The result of an assertion."""

    text: str
    checked: tuple[Checked, ...]

    @property
    def ok(self) -> bool:
        """Whether it passes; an assertion without rows does not."""
        return bool(self.checked) and all(one.ok for one in self.checked)

    @property
    def verdict(self) -> Verdict:
        """Of all rows: it fails where one does, and holds where all do."""
        found = {one.verdict for one in self.checked} or {"fails"}
        if "fails" in found:
            return "fails"
        return "holds" if found == {"holds"} else "undecided"


class OrderFinding(Model):
    """Effect of the order of trials on a metric, over all variants.

    Values are relative to their variant's median, so slopes are shares per trial.
    """

    relative: bool = True
    """Whether that was possible; else values less the median are taken, which is zero."""

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

    def series_of(self, variant: Labels, beside: Labels | None = None) -> str:
        """A variant within its group; with its group's labels where it is in another one."""
        if not self.axis or (beside and self.group(beside) != self.group(variant)):
            return " / ".join(variant.values()) or "all"
        return self.name(variant)


class Regression(Model):
    """One metric of one variant compared with the earlier run it was interleaved with."""

    variant: Labels
    measurement: str
    metric: str
    unit: str
    direction: Direction
    subject: str
    effect: Effect
    """Corrected for all of them."""
    worse: bool
    """Whether it is significantly worse than before."""


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
    regressions: tuple[Regression, ...] = ()
    """Every metric compared with an earlier run, if the run is made against one."""
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
        """Whether all assertions pass, and nothing is worse than in an earlier run."""
        worse = any(one.worse for one in self.regressions)
        return all(outcome.ok for outcome in self.outcomes) and not worse
