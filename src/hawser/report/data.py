"""The report as data, JSON and CSV. Names are stable, because scripts depend on them."""

from __future__ import annotations

import csv
import io
import json

from hawser.report.model import Comparison, Outcome, Report, Row
from hawser.report.tables import axes_of
from hawser.stats import Interval


def document(report: Report) -> dict[str, object]:
    """The report as one JSON object."""
    manifest = report.manifest
    return {
        "run": manifest.run,
        "workflow": manifest.workflow,
        "title": manifest.title,
        "valid": report.valid,
        "state": report.state,
        "passed": report.passed,
        "problems": list(report.problems),
        "warnings": list(report.warnings),
        "finding": list(report.finding),
        "rows": [_row(row) for row in report.rows],
        "passive": [_row(row) for row in report.passive],
        "comparisons": [_comparison(one) for one in report.comparisons],
        "bottlenecks": [one.model_dump(mode="json") for one in report.bottlenecks],
        "assertions": [_outcome(one) for one in report.outcomes],
        "excluded": [one.model_dump(mode="json") for one in report.excluded],
        "order": [one.model_dump(mode="json") for one in report.order],
        "published_elsewhere": list(report.unmatched),
        "manifest": manifest.model_dump(mode="json"),
    }


def dumps(report: Report) -> str:
    """The JSON text of a report."""
    return json.dumps(document(report), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _row(row: Row) -> dict[str, object]:
    found = row.summary
    return {
        "variant": row.variant,
        "measurement": row.measurement,
        "metric": row.metric,
        "unit": row.unit,
        "direction": row.direction,
        "subject": row.subject,
        "n": found.n,
        "mean": found.mean,
        "median": found.median,
        "ci95": _pair(found.interval),
        "ci95_confidence": found.confidence,
        "median_with_void": row.with_void,
        "censored": found.censored,
        "median_censored": found.open,
        "sd": found.sd,
        "cov": found.cov,
        "min": found.minimum,
        "max": found.maximum,
        "values": list(row.values),
        "trials": [run.trial for run in row.runs],
        "reference": row.reference.model_dump() if row.reference is not None else None,
        "bounds": row.bounds.model_dump() if row.bounds is not None else None,
    }


def _comparison(one: Comparison) -> dict[str, object]:
    return {
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


def _outcome(one: Outcome) -> dict[str, object]:
    checked = [row.model_dump(mode="json") for row in one.checked]
    return {"assertion": one.text, "verdict": one.verdict, "ok": one.ok, "checked": checked}


def _pair(interval: Interval | None) -> list[float] | None:
    return None if interval is None else [interval.low, interval.high]


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
        flat, found = _row(row), row.summary
        ends = _pair(found.interval) or ("", "")
        published = (row.reference.value, row.reference.source) if row.reference else ("", "")
        labels = [row.variant.get(axis, "") for axis in axes]
        plain = [flat[name] for name in _COLUMNS]
        writer.writerow([*labels, *plain, *ends, *published])
    return stream.getvalue()
