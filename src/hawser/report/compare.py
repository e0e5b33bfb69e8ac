"""Runs side by side: each value of the first run compared with that of the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, get_args

from hawser.report import judge
from hawser.report.build import build
from hawser.report.collect import label_key
from hawser.report.model import Layout, Report, Row
from hawser.report.words import join
from hawser.spec.model import Model
from hawser.spec.workflow import Labels
from hawser.stats import Effect, unpaired
from hawser.store import Bundle, Manifest

Key = tuple[frozenset[tuple[str, str]], str, str, str, str, str]


class Line(Model):
    """One metric of one variant in all runs."""

    variant: Labels
    rows: tuple[Row | None, ...]
    """One for each run, in their order; None if the run does not have it."""
    effects: tuple[Effect | None, ...]
    """For each run after the first, how it differs from the first; None if one lacks the value or
    has censored trials. Runs share no blocks."""

    @property
    def any(self) -> Row:
        """The row of any run, for names and units."""
        return next(row for row in self.rows if row is not None)


class Comparison(Model):
    """Several runs side by side."""

    runs: tuple[Manifest, ...]
    valid: tuple[bool, ...]
    layout: Layout
    """How variants are laid out."""
    lines: tuple[Line, ...]
    headline: tuple[Line, ...]
    """Those of the metric that the runs are about."""
    differences: tuple[str, ...]
    """Differences between the runs other than their results."""


def compare(bundles: Sequence[Bundle]) -> Comparison:
    """Compare runs with the first of them.

    Raises:
        BundleError: one of them is damaged.
        ValueError: fewer than two runs.
    """
    if len(bundles) < 2:
        raise ValueError(f"found {len(bundles)} run, expected at least two to compare")
    reports = [build(bundle) for bundle in bundles]
    found: dict[Key, list[Row | None]] = {}
    for index, report in enumerate(reports):
        for row in report.rows:
            found.setdefault(_key(row), [None] * len(reports))[index] = row
    lines = {key: _line(rows) for key, rows in found.items()}
    about = dict.fromkeys(_key(row) for report in reports for row in report.headline)
    return Comparison(
        runs=tuple(report.manifest for report in reports),
        valid=tuple(report.valid for report in reports),
        layout=judge.lay_out(reports[0].workflow),
        lines=tuple(lines.values()),
        headline=tuple(lines[key] for key in about),
        differences=differences(reports),
    )


def _key(row: Row) -> Key:
    what = row.measurement, row.metric, row.unit, row.direction, row.subject
    return label_key(row.variant), *what


def _line(rows: Sequence[Row | None]) -> Line:
    first = rows[0]
    effects = [_effect(row, first) for row in rows[1:]]
    variant = next(row.variant for row in rows if row is not None)
    return Line(variant=variant, rows=tuple(rows), effects=tuple(effects))


def _effect(row: Row | None, first: Row | None) -> Effect | None:
    if row is None or first is None or row.summary.censored or first.summary.censored:
        return None
    return unpaired(row.values, first.values)


def differences(reports: Sequence[Report]) -> tuple[str, ...]:
    """Other differences between the runs, which may explain different results."""
    aspects: dict[str, Callable[[Report], object]] = {
        "workflow": lambda r: r.manifest.workflow,
        "what is deployed and measured": lambda r: r.workflow.variants,
        "Hawser's version": lambda r: (r.manifest.hawser, r.manifest.revision),
        "machine": lambda r: r.manifest.machine,
        "versions of tools": lambda r: r.manifest.tools,
        "kernel settings": lambda r: r.manifest.kernel,
    }
    differ = [
        name for name, get in aspects.items() if any(get(r) != get(reports[0]) for r in reports)
    ]
    not_valid = [report.manifest.run for report in reports if not report.valid]
    return (
        *([f"The runs also differ in {join(differ)}."] if differ else []),
        *(f"{run} is not valid: do not rely on it." for run in not_valid),
    )


Form = Literal["html", "md", "json", "text"]
FORMS: tuple[Form, ...] = get_args(Form)
