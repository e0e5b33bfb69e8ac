"""Judgements on rows: assertions, comparisons, effects of the order of trials, warnings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import geometric_mean

from hawser.report.collect import PASSIVE, covers
from hawser.report.model import (
    Checked,
    Comparison,
    Layout,
    OrderFinding,
    Outcome,
    Row,
)
from hawser.report.words import count, number, percent, term
from hawser.spec.workflow import Assertion, Workflow
from hawser.stats import Summary, check_order, ratio_of_medians
from hawser.store import label

_FEW = 5
"""With fewer runs than this, intervals are too wide to conclude much."""


def lay_out(workflow: Workflow) -> Layout:
    """Lay out the variants: the last axis that varies gives the series, the others the groups."""
    variants = [variant.labels for variant in workflow.variants]
    values: dict[str, dict[str, None]] = {}
    for labels in variants:
        for axis, value in labels.items():
            values.setdefault(axis, {})[value] = None
    varying = [axis for axis, found in values.items() if len(found) > 1]
    axis = varying[-1] if varying else ""
    layout = Layout(axis=axis, group_axes=tuple(varying[:-1]), groups=(), series=())
    return layout.model_copy(
        update={
            "groups": tuple(dict.fromkeys(layout.group(labels) for labels in variants)),
            "series": tuple(dict.fromkeys(layout.name(labels) for labels in variants)),
        }
    )


def outcomes(workflow: Workflow, made: Sequence[Row]) -> tuple[Outcome, ...]:
    """Check the rows against the workflow's assertions."""
    return tuple(_outcome(assertion, made) for assertion in workflow.assertions)


def _outcome(wanted: Assertion, made: Sequence[Row]) -> Outcome:
    concerned = [
        row
        for row in made
        if row.metric == wanted.metric
        and wanted.measurement in (None, row.measurement)
        and covers(wanted.variant, row.variant)
    ]
    unit = concerned[0].unit if concerned else ""
    if wanted.relative_to:
        unit = f"times {label(wanted.relative_to)}"
    limits = [
        f"{words} {number(limit)}"
        for words, limit in (("at least", wanted.at_least), ("at most", wanted.at_most))
        if limit is not None
    ]
    who = label(wanted.variant) if wanted.variant else "every variant"
    if wanted.across:
        who += f", geometric mean over {wanted.across}"
    text = f"{wanted.statistic} {wanted.metric} of {who}: {' and '.join(limits)} {unit}".strip()
    values = [(row, _value(wanted, row, made)) for row in concerned]
    if wanted.across:
        values = _together(values, wanted.across)
    return Outcome(text=text, checked=tuple(_checked(wanted, row, value) for row, value in values))


def _value(wanted: Assertion, row: Row, made: Sequence[Row]) -> float | None:
    value = _statistic(row.summary, wanted.statistic)
    return _ratio(value, _counterpart(wanted, row, made)) if wanted.relative_to else value


def _together(
    values: Sequence[tuple[Row, float | None]], axis: str
) -> list[tuple[Row, float | None]]:
    """The geometric mean over the values of an axis, with the first row without that label."""
    groups: dict[tuple[str, ...], list[tuple[Row, float | None]]] = {}
    for row, value in values:
        rest = sorted(item for item in row.variant.items() if item[0] != axis)
        key = (row.measurement, row.direction, row.subject, *(f"{a}={b}" for a, b in rest))
        groups.setdefault(key, []).append((row, value))
    return [_mean(found, axis) for found in groups.values()]


def _mean(found: Sequence[tuple[Row, float | None]], axis: str) -> tuple[Row, float | None]:
    """None if a value is missing: a mean of the others would describe something else."""
    row = found[0][0]
    known = [value for _, value in found if value]
    variant = {name: value for name, value in row.variant.items() if name != axis}
    mean = geometric_mean(known) if len(known) == len(found) else None
    return row.model_copy(update={"variant": variant}), mean


def _checked(wanted: Assertion, row: Row, value: float | None) -> Checked:
    low = wanted.at_least if wanted.at_least is not None else float("-inf")
    high = wanted.at_most if wanted.at_most is not None else float("inf")
    ok = value is not None and low <= value <= high
    return Checked(variant=row.variant, measurement=row.measurement, value=value, ok=ok)


def _counterpart(wanted: Assertion, row: Row, made: Sequence[Row]) -> float | None:
    """The same statistic of the variant that differs only in the labels of `relative_to`."""
    variant = row.variant | wanted.relative_to
    same = ("measurement", "metric", "unit", "direction", "subject")
    for other in made:
        if other.variant == variant and all(getattr(other, f) == getattr(row, f) for f in same):
            return _statistic(other.summary, wanted.statistic)
    return None


def _ratio(value: float | None, other: float | None) -> float | None:
    """The quotient; None if either is missing or the divisor is 0."""
    return value / other if value is not None and other else None


def _statistic(summary: Summary, name: str) -> float | None:
    return {
        "median": summary.median,
        "mean": summary.mean,
        "min": summary.minimum,
        "max": summary.maximum,
        "sd": summary.sd,
    }[name]


def comparisons(layout: Layout, about: Sequence[Row]) -> tuple[Comparison, ...]:
    """Compare the best variant of each group with every other, the closest first."""
    found: list[Comparison] = []
    for group in layout.groups:
        ranked = ranking([row for row in about if layout.group(row.variant) == group])
        for other in ranked[1:]:
            ratio = ratio_of_medians(ranked[0].values, other.values)
            if ratio is not None:
                found.append(
                    Comparison(
                        group=group, leader=ranked[0].variant, other=other.variant, ratio=ratio
                    )
                )
    return tuple(found)


def ranking(rows: Iterable[Row]) -> list[Row]:
    """Rows of one metric in order of their medians, best first."""
    return sorted(
        rows,
        key=lambda r: r.summary.median * (-1 if term(r.metric).better == "higher" else 1),
    )


def order_findings(made: Sequence[Row]) -> tuple[OrderFinding, ...]:
    """Check every active metric for effects of the order of trials, over all variants."""
    series: dict[tuple[str, str, str], list[Row]] = {}
    for row in made:
        if row.measurement != PASSIVE and not row.subject:
            series.setdefault((row.measurement, row.metric, row.direction), []).append(row)
    found = []
    for rows in series.values():
        values = _relative(rows)
        if len(values) >= 2:
            what = rows[0]
            found.append(
                OrderFinding(
                    measurement=what.measurement,
                    metric=what.metric,
                    direction=what.direction,
                    check=check_order(values),
                )
            )
    return tuple(found)


def _relative(rows: Sequence[Row]) -> list[float]:
    """All values relative to their variant's median, by trial; variants with one run left out."""
    usable = [row for row in rows if row.summary.n > 1 and row.summary.median != 0]
    points = [(run.trial, run.value / row.summary.median) for row in usable for run in row.runs]
    return [value for _, value in sorted(points)]


def warnings(made: Sequence[Row], order: Sequence[OrderFinding]) -> tuple[str, ...]:
    """What limits the conclusions from a run."""
    fewest = min((row.summary.n for row in made), default=_FEW)
    few = f"Some variants have only {count(fewest, 'run')}: intervals are wide or missing"
    return (
        *([few] if fewest < _FEW else []),
        *(_disagreement(row) for row in made if row.summary.disagree),
        *(text for finding in order for text in _order_warnings(finding)),
    )


def _disagreement(row: Row) -> str:
    return (
        f"{row.metric} of {label(row.variant)}: the t and bootstrap intervals disagree, so the"
        " runs are skewed or contain an outlier; use the median"
    )


def _order_warnings(finding: OrderFinding) -> list[str]:
    check, what = finding.check, f"{finding.measurement} {finding.metric}"
    found = []
    if check.trend:
        way = "rose" if check.slope > 0 else "fell"
        change = percent(abs(check.slope) * (check.n - 1))
        found.append(f"{what} {way} over the run by about {change} (p = {check.trend_p:.2g})")
    if check.dependent:
        found.append(
            f"{what}: consecutive trials are correlated (lag-1 autocorrelation {check.lag1:+.2f}),"
            " so intervals are too narrow"
        )
    return found
