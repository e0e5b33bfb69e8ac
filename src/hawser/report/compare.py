"""Runs side by side: each value of the first run, or of a side of runs, compared with the others.

Runs share no repeats, and two runs of the same thing differ by more than their trials do. So two
runs give ratios without a verdict. Three runs a side show how much runs vary; then the run is the
sample, and a difference can be told.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Literal, get_args

from hawser.report import judge
from hawser.report.build import build
from hawser.report.collect import label_key
from hawser.report.model import Layout, Report, Row
from hawser.report.words import join
from hawser.spec.model import Model
from hawser.spec.workflow import Labels
from hawser.stats import Effect, corrected, unpaired
from hawser.store import Bundle, Manifest

FEWEST = 3
"""Runs a side that a verdict needs."""

Key = tuple[frozenset[tuple[str, str]], str, str, str, str, str]


class Line(Model):
    """One metric of one variant in all runs."""

    variant: Labels
    rows: tuple[Row | None, ...]
    """One for each run, in their order; None if the run does not have it."""
    effects: tuple[Effect | None, ...]
    """Of pairs, for each run after the first: how it differs from the first, without an interval.
    Of sides, one: how the other runs differ from the reference. None if a value is missing or
    censored."""
    spread: tuple[float | None, ...]
    """Coefficient of variation between the medians of runs: of all runs, or of each side. None for
    fewer than three."""

    @property
    def any(self) -> Row:
        """The row of any run, for names and units."""
        return next(row for row in self.rows if row is not None)


class Comparison(Model):
    """Several runs side by side."""

    runs: tuple[Manifest, ...]
    """Those of the reference first."""
    reference: int
    """How many are the reference; 0 if the first is compared with each other one."""
    valid: tuple[bool, ...]
    layout: Layout
    """How variants are laid out."""
    lines: tuple[Line, ...]
    headline: tuple[Line, ...]
    """Those of the metric that the runs are about."""
    differences: tuple[str, ...]
    """Differences between the runs other than their results."""

    @property
    def judged(self) -> bool:
        """Whether there are runs enough for verdicts."""
        return min(self.reference, len(self.runs) - self.reference) >= FEWEST


def compare(bundles: Sequence[Bundle], reference: Sequence[Bundle] = ()) -> Comparison:
    """Compare runs with the first of them, or with those of a reference.

    Args:
        bundles: the runs.
        reference: runs that they are compared with, all together.

    Raises:
        BundleError: one of them is damaged.
        ValueError: fewer than two runs, or one that is on both sides.
    """
    everything = [*reference, *bundles]
    if len(everything) < 2 or not bundles:
        raise ValueError(f"found {len(everything)} run, expected at least two to compare")
    if {each.manifest.run for each in reference} & {each.manifest.run for each in bundles}:
        raise ValueError("found a run on both sides")
    reports = [build(bundle) for bundle in everything]
    found: dict[Key, list[Row | None]] = {}
    for index, report in enumerate(reports):
        for row in report.rows:
            found.setdefault(_key(row), [None] * len(reports))[index] = row
    made = {key: _line(rows, len(reference)) for key, rows in found.items()}
    lines = dict(zip(made, _corrected(list(made.values())), strict=True))
    about = dict.fromkeys(_key(row) for report in reports for row in report.headline)
    return Comparison(
        runs=tuple(report.manifest for report in reports),
        reference=len(reference),
        valid=tuple(report.valid for report in reports),
        layout=judge.lay_out(reports[0].workflow),
        lines=tuple(lines.values()),
        headline=tuple(lines[key] for key in about),
        differences=differences(reports),
    )


def _key(row: Row) -> Key:
    what = row.measurement, row.metric, row.unit, row.direction, row.subject
    return label_key(row.variant), *what


def _line(rows: Sequence[Row | None], reference: int) -> Line:
    variant = next(row.variant for row in rows if row is not None)
    if not reference:
        effects = tuple(_ratio(row, rows[0]) for row in rows[1:])
        spread: tuple[float | None, ...] = (_spread(rows),)
    else:
        effects = (_between(rows[reference:], rows[:reference]),)
        spread = (_spread(rows[:reference]), _spread(rows[reference:]))
    return Line(variant=variant, rows=tuple(rows), effects=effects, spread=spread)


def _medians(rows: Sequence[Row | None]) -> list[float]:
    return [row.summary.median for row in rows if row is not None and not row.summary.censored]


def _spread(rows: Sequence[Row | None]) -> float | None:
    """Coefficient of variation between runs."""
    medians = _medians(rows)
    if len(medians) < FEWEST or not (centre := statistics.fmean(medians)):
        return None
    return statistics.stdev(medians) / abs(centre)


def _ratio(row: Row | None, first: Row | None) -> Effect | None:
    """How two runs differ. Their trials cannot say how much runs vary, so nothing is judged."""
    if row is None or first is None or row.summary.censored or first.summary.censored:
        return None
    found = unpaired(row.values, first.values)
    return found and found.model_copy(update={"interval": None, "p": None})


def _between(rows: Sequence[Row | None], reference: Sequence[Row | None]) -> Effect | None:
    """How runs differ from those of the reference. A run is one sample: its median."""
    one, other = _medians(rows), _medians(reference)
    return unpaired(one, other) if one and other else None


def _corrected(lines: Sequence[Line]) -> list[Line]:
    """The lines, with p-values corrected for their number."""
    known = [effect for line in lines for effect in line.effects if effect is not None]
    found = iter(corrected(known))
    return [
        line.model_copy(update={"effects": tuple(one and next(found) for one in line.effects)})
        for line in lines
    ]


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
