"""The report as a JSON document: its models, from which `schemas/report.schema.json` is made.

Names are stable, because scripts depend on them. New fields may be added.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from hawser.report.model import Bottleneck, Bounds, Checked, Exclusion, OrderFinding, Published
from hawser.spec.model import Model
from hawser.spec.workflow import Labels
from hawser.stats import Verdict
from hawser.store import Direction, Manifest

Pair = tuple[float, float]
"""Ends of an interval."""


class RowDocument(Model):
    """One metric of one variant over its valid trials."""

    variant: Labels
    measurement: str
    metric: str
    unit: str
    direction: Direction
    subject: str
    """The element measured; empty for the whole."""
    n: int
    """Trials."""
    mean: float | None
    """Null if a trial is censored."""
    median: float
    """A lower bound if `median_censored`."""
    ci95: Pair | None
    """Interval of the median; null if it cannot be given."""
    ci95_confidence: float | None
    """Of that interval: 0.9375 for five trials, else at least 0.95."""
    median_with_void: float | None
    """Median over void trials too; null if none of them has a value."""
    censored: int
    """Trials whose true value is larger."""
    median_censored: bool
    sd: float | None
    """Sample standard deviation over trials."""
    cov: float | None
    """Coefficient of variation."""
    min: float
    max: float
    values: tuple[float, ...]
    """One a trial."""
    trials: tuple[int, ...]
    """Their numbers."""
    reference: Published | None
    """Published value in the same unit."""
    bounds: Bounds | None
    """What the described network can carry."""


class _Compared(Model):
    """One variant compared with another in the headline metric."""

    variant: Labels
    against: Labels
    ci95: Pair | None
    """Of this effect alone; null below three repeats."""
    paired: bool
    """Whether it is taken within repeats."""
    n: int
    """Repeats, or trials of the variant that has fewer."""
    p: float | None
    p_holm: float | None
    """Corrected for all comparisons of the run."""
    told_apart: bool | None
    """Whether the variants differ significantly; null if there are too few repeats."""


class RatioDocument(_Compared):
    """The ratio of one variant to another in the headline metric."""

    ratio: float
    """Geometric mean of ratios."""


class DifferenceDocument(_Compared):
    """The difference of two variants, where a value is not positive."""

    difference: float
    """Mean difference, in the metric's unit."""


class RegressionDocument(Model):
    """One metric compared with an earlier run that was interleaved."""

    variant: Labels
    measurement: str
    metric: str
    unit: str
    direction: Direction
    subject: str
    """What of the measurement it is about, such as a share of the load; empty if it is all."""
    kind: Literal["ratio", "difference", "order"]
    value: float
    """Now to before: geometric mean of ratios within repeats, mean difference, or, where a trial is
    censored, share of repeats with a larger value now."""
    ci95: Pair | None
    p_holm: float | None
    """Corrected for all metrics and variants."""
    told_apart: bool | None
    worse: bool
    """Whether it is significantly worse than before."""


class AssertionDocument(Model):
    """An assertion of the workflow."""

    assertion: str
    verdict: Verdict
    ok: bool
    """Whether it passes: an undecided one as the workflow says."""
    checked: tuple[Checked, ...]


class ReportDocument(Model):
    """The report of a run: `hawser report RUN --format json`."""

    run: str
    workflow: str
    title: str
    valid: bool
    """Whether results can be relied on, regardless of assertions."""
    state: Literal["running", "incomplete", "done", "failed"]
    passed: bool
    """Whether all assertions pass."""
    problems: tuple[str, ...]
    """Why it is not valid."""
    warnings: tuple[str, ...]
    """What limits conclusions."""
    finding: Annotated[tuple[str, ...], Field(min_length=1)]
    """The main result in sentences."""
    rows: tuple[RowDocument, ...]
    passive: tuple[RowDocument, ...]
    """Counters of links and daemons."""
    comparisons: tuple[RatioDocument | DifferenceDocument, ...]
    regressions: tuple[RegressionDocument, ...]
    """Every metric compared with the run of the manifest's `against`."""
    bottlenecks: tuple[Bottleneck, ...]
    assertions: tuple[AssertionDocument, ...]
    excluded: tuple[Exclusion, ...]
    """Void trials."""
    order: tuple[OrderFinding, ...]
    """Effects of the order of trials."""
    published_elsewhere: tuple[str, ...]
    """Published values without a row in this run."""
    manifest: Manifest


def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a report. It allows fields of later versions."""
    made = ReportDocument.model_json_schema(mode="serialization")
    _open(made)
    for definition in made["$defs"].values():
        _open(definition)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Hawser report"}
    return head | {name: value for name, value in made.items() if name != "title"}


def _open(definition: dict[str, Any]) -> None:
    definition.pop("additionalProperties", None)
    if "properties" in definition:
        definition["required"] = list(definition["properties"])
