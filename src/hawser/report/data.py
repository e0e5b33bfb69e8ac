"""The report as data, JSON and CSV. Names are stable, because scripts depend on them."""

from __future__ import annotations

import csv
import io
import json

from hawser.report.document import (
    AssertionDocument,
    DifferenceDocument,
    RatioDocument,
    RegressionDocument,
    ReportDocument,
    RowDocument,
)
from hawser.report.model import Comparison, Outcome, Regression, Report, Row
from hawser.report.tables import axes_of
from hawser.stats import Interval
from hawser.store import label


def document(report: Report) -> dict[str, object]:
    """The report as one JSON object, as `hawser.report.document` describes it."""
    manifest = report.manifest
    made = ReportDocument(
        run=manifest.run,
        workflow=manifest.workflow,
        title=manifest.title,
        valid=report.valid,
        state=report.state,
        passed=report.passed,
        problems=report.problems,
        warnings=report.warnings,
        finding=report.finding,
        rows=tuple(map(_row, report.rows)),
        passive=tuple(map(_row, report.passive)),
        comparisons=tuple(map(_comparison, report.comparisons)),
        regressions=tuple(map(_regression, report.regressions)),
        bottlenecks=report.bottlenecks,
        assertions=tuple(map(_outcome, report.outcomes)),
        excluded=report.excluded,
        order=report.order,
        published_elsewhere=report.unmatched,
        manifest=manifest,
    )
    return made.model_dump(mode="json")


def dumps(report: Report) -> str:
    """The JSON text of a report."""
    return json.dumps(document(report), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _row(row: Row) -> RowDocument:
    found = row.summary
    return RowDocument(
        variant=row.variant,
        measurement=row.measurement,
        metric=row.metric,
        unit=row.unit,
        direction=row.direction,
        subject=row.subject,
        n=found.n,
        mean=found.mean,
        median=found.median,
        ci95=_pair(found.interval),
        ci95_confidence=found.confidence,
        median_with_void=row.with_void,
        censored=found.censored,
        median_censored=found.open,
        sd=found.sd,
        cov=found.cov,
        min=found.minimum,
        max=found.maximum,
        values=row.values,
        trials=tuple(run.trial for run in row.runs),
        reference=row.reference,
        bounds=row.bounds,
    )


def _comparison(one: Comparison) -> RatioDocument | DifferenceDocument:
    kind = RatioDocument if one.effect.kind == "ratio" else DifferenceDocument
    return kind.model_validate(
        {
            "variant": one.variant,
            "against": one.against,
            one.effect.kind: one.effect.value,
            "ci95": _pair(one.effect.interval),
            "paired": one.effect.paired,
            "n": one.effect.n,
            "p": one.effect.p,
            "p_holm": one.effect.adjusted,
            "told_apart": one.effect.verdict,
        }
    )


def _regression(one: Regression) -> RegressionDocument:
    return RegressionDocument(
        variant=one.variant,
        measurement=one.measurement,
        metric=one.metric,
        unit=one.unit,
        direction=one.direction,
        subject=one.subject,
        kind=one.effect.kind,
        value=one.effect.value,
        ci95=_pair(one.effect.interval),
        p_holm=one.effect.adjusted,
        told_apart=one.effect.verdict,
        worse=one.worse,
    )


def _outcome(one: Outcome) -> AssertionDocument:
    return AssertionDocument(
        assertion=one.text, verdict=one.verdict, ok=one.ok, checked=one.checked
    )


def _pair(interval: Interval | None) -> tuple[float, float] | None:
    return None if interval is None else (interval.low, interval.high)


_COLUMNS = (
    "measurement", "metric", "unit", "direction", "subject",
    "n", "mean", "median", "sd", "cov", "min", "max",
)  # fmt: skip
_PAIRS = ("ci95",)


def table(report: Report) -> str:
    """The rows as CSV (RFC 4180), with a column for each axis and two for each interval."""
    axes = [axis for axis in axes_of(report) if report.layout.axis]
    stream = io.StringIO()
    names = [f"{pair}_{end}" for pair in _PAIRS for end in ("low", "high")]
    writer = csv.writer(stream)
    writer.writerow([*(f"v_{a}" for a in axes), *_COLUMNS, *names, "reference", "reference_source"])
    for row in report.rows:
        flat, found = _row(row).model_dump(), row.summary
        ends = _pair(found.interval) or ("", "")
        published = (row.reference.value, row.reference.source) if row.reference else ("", "")
        labels = [row.variant.get(axis, "") for axis in axes]
        plain = [flat[name] for name in _COLUMNS]
        writer.writerow([*labels, *plain, *ends, *published])
    return stream.getvalue()


def runs(report: Report) -> list[list[object]]:
    """Every run's value of every row, with a head: the samples that statistics are made of."""
    axes = [axis for axis in axes_of(report) if report.layout.axis]
    columns = ["measurement", "metric", "unit", "direction", "subject"]
    head = [*(f"v_{a}" for a in axes), *columns, "trial", "repeat", "value", "censored"]
    return [
        head,
        *(
            [
                *(row.variant.get(axis, "") for axis in axes),
                *(getattr(row, column) for column in columns),
                *(run.trial, run.repeat, run.value, run.censored),
            ]
            for row in report.rows
            for run in row.runs
        ),
    ]


def comparisons(report: Report) -> list[list[object]]:
    """The comparisons of the headline metric, with a head."""
    head = ["variant", "against", "kind", "value", "ci95_low", "ci95_high"]
    return [
        [*head, "paired", "n", "p", "p_holm", "told_apart"],
        *(
            [
                *(label(one.variant), label(one.against), one.effect.kind, one.effect.value),
                *(_pair(one.effect.interval) or ("", "")),
                *(one.effect.paired, one.effect.n, one.effect.p),
                *(one.effect.adjusted, one.effect.verdict),
            ]
            for one in report.comparisons
        ),
    ]
