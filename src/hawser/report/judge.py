"""Judgements on rows: comparisons, effects of the order of trials, warnings."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence

from hawser.report.collect import PASSIVE, label_key
from hawser.report.model import Comparison, Layout, OrderFinding, Row
from hawser.report.words import count, join, number, percent, term
from hawser.spec.metric import names
from hawser.spec.workflow import Labels, Until, Workflow
from hawser.stats import check_order, corrected, effect
from hawser.store import Manifest, label
from hawser.store.manifest import Session

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


def comparisons(layout: Layout, about: Sequence[Row], baseline: Labels) -> tuple[Comparison, ...]:
    """Every variant against the baseline; without one, each group's leader against its others.

    The leader is known from the same trials, so all pairs of a group count as compared: a leader
    among equals is then not told apart more often than any pair would be.

    Args:
        layout: how variants are laid out.
        about: rows of one metric.
        baseline: labels of the variant that each is held against; it carries all others of its own.
    """
    if baseline:
        return _corrected(_to_baseline(layout, about, baseline))
    ranked = [ranking([r for r in about if layout.group(r.variant) == g]) for g in layout.groups]
    leading = [_compared(layout, rows[0], row) for rows in ranked for row in rows[1:]]
    others = [
        _compared(layout, one, other)
        for rows in ranked
        for one, other in itertools.combinations(rows[1:], 2)
    ]
    shown = sum(one is not None for one in leading)
    return _corrected([*leading, *others])[:shown]


def _to_baseline(layout: Layout, about: Sequence[Row], baseline: Labels) -> list[Comparison | None]:
    rows = {label_key(row.variant): row for row in about}
    return [
        _compared(layout, row, base)
        for row in about
        if (base := rows.get(label_key(row.variant | baseline))) is not None and base is not row
    ]


def _compared(layout: Layout, row: Row, other: Row) -> Comparison | None:
    if row.summary.censored or other.summary.censored:
        return None
    found = effect(row.blocks, other.blocks)
    if found is None:
        return None
    group = layout.group(row.variant)
    return Comparison(group=group, variant=row.variant, against=other.variant, effect=found)


def _corrected(found: Sequence[Comparison | None]) -> tuple[Comparison, ...]:
    made = [one for one in found if one is not None]
    effects = corrected([one.effect for one in made])
    return tuple(
        one.model_copy(update={"effect": known}) for one, known in zip(made, effects, strict=True)
    )


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
        relative = _relative(rows)
        values = relative or _deviations(rows)
        if len(values) >= 2:
            what = rows[0]
            found.append(
                OrderFinding(
                    measurement=what.measurement,
                    metric=what.metric,
                    direction=what.direction,
                    check=check_order(values),
                    relative=bool(relative),
                )
            )
    return tuple(found)


def with_intervals(made: Sequence[Row], order: Sequence[OrderFinding]) -> list[Row]:
    """The rows, with the interval of a median only if trials may be treated as independent."""
    known = {_series(one) for one in order if one.check.independent}
    return [row if _series(row) in known else _without_interval(row) for row in made]


def _series(what: Row | OrderFinding) -> tuple[str, str, str]:
    return what.measurement, what.metric, what.direction


def _without_interval(row: Row) -> Row:
    summary = row.summary.model_copy(update={"interval": None, "confidence": None})
    return row.model_copy(update={"summary": summary})


def _relative(rows: Sequence[Row]) -> list[float]:
    """All values relative to their variant's median, by trial; variants with one run left out."""
    usable = [row for row in rows if row.summary.n > 1 and row.summary.median != 0]
    points = [(run.trial, run.value / row.summary.median) for row in usable for run in row.runs]
    return [value for _, value in sorted(points)]


def _deviations(rows: Sequence[Row]) -> list[float]:
    """All values minus their variant's median, by trial."""
    usable = [row for row in rows if row.summary.n > 1]
    points = [(run.trial, run.value - row.summary.median) for row in usable for run in row.runs]
    return [value for _, value in sorted(points)]


def warnings(
    made: Sequence[Row], order: Sequence[OrderFinding], manifest: Manifest
) -> tuple[str, ...]:
    """What limits the conclusions from a run."""
    fewest = min((row.summary.n for row in made), default=_FEW)
    few = f"Some variants have only {count(fewest, 'run')}: intervals are wide or missing"
    return (
        *([few] if fewest < _FEW else []),
        *(_censored(row) for row in made if row.summary.censored),
        *(text for finding in order for text in _order_warnings(finding)),
        *_changed(manifest),
    )


def imprecise(until: Until | None, made: Sequence[Row]) -> tuple[str, ...]:
    """What has not reached the precision that the workflow asks for."""
    return tuple(
        f"{row.metric} of {label(row.variant)}: the interval of the median is wider than"
        f" \N{PLUS-MINUS SIGN}{until.until} after {count(row.summary.n, 'run')}"
        for row in (made if until is not None else ())
        if until is not None
        and row.metric in names(until.metric)
        and until.measurement in (None, row.measurement)
        and not row.summary.precise(until.until)
    )


def _changed(manifest: Manifest) -> tuple[str, ...]:
    """What was not the same in a resumed run."""
    aspects: dict[str, Callable[[Manifest | Session], object]] = {
        "machine or kernel": lambda m: m.machine,
        "kernel settings": lambda m: m.kernel,
        "versions of tools": lambda m: m.tools,
        "Hawser's version": lambda m: (m.hawser, m.revision),
    }
    differ = [
        name
        for name, get in aspects.items()
        if any(get(session) != get(manifest) for session in manifest.resumed)
    ]
    return (f"The run was resumed with another {join(differ)}",) if differ else ()


def _censored(row: Row) -> str:
    found = row.summary
    return (
        f"{row.metric} of {label(row.variant)}: {found.censored} of {count(found.n, 'run')} ended"
        " before traffic recovered, so the true time is longer"
    )


def _order_warnings(finding: OrderFinding) -> list[str]:
    check, what = finding.check, f"{finding.measurement} {finding.metric}"
    found = []
    if check.trend:
        way = "rose" if check.slope > 0 else "fell"
        change = abs(check.slope) * (check.n - 1)
        amount = percent(change) if finding.relative else number(change)
        found.append(f"{what} {way} over the run by about {amount} (p = {check.trend_p:.2g})")
    if check.dependent:
        found.append(
            f"{what}: consecutive trials are correlated (lag-1 autocorrelation {check.lag1:+.2f}),"
            " so medians have no interval"
        )
    return found
