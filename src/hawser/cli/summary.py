"""A run's results in one small table, for the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from hawser.cli import output
from hawser.report.model import Checked, Outcome, Report, Row
from hawser.report.words import DASH, effect_interval, effect_value, middle, number
from hawser.store import label

_DETAILS = ("rtt_min", "rtt_p99")
"""Metrics that are in the report but not in this table."""

Column = tuple[str, ...]


def summary(report: Report) -> RenderableType:
    """A run's finding, a line for each variant, and everything that is wrong with the run."""
    parts: list[RenderableType] = [Text(report.manifest.title, style="bold")]
    parts += [Text(sentence) for sentence in report.finding]
    if report.rows:
        parts += [Text(), _table(report), Text("Median of n runs, and their range.", style="dim")]
    parts += [
        Text(f"void: trial {one.trial} ({label(one.variant)}): {one.reason}", style="yellow")
        for one in report.excluded
    ]
    parts += [_judged(outcome) for outcome in report.outcomes]
    parts += [
        Text(
            f"worse than before: {one.metric} of {label(one.variant)}: {effect_value(one.effect)}"
            f" (95 % CI {effect_interval(one.effect)})",
            style="red",
        )
        for one in report.regressions
        if one.worse
    ]
    parts += [Text(f"not valid: {problem}", style="red") for problem in report.problems]
    return Group(*parts)


def _judged(outcome: Outcome) -> Text:
    if outcome.verdict == "holds":
        return Text(f"assertion holds: {outcome.text}", "green")
    open_ = [one for one in outcome.checked if one.verdict == outcome.verdict]
    found = ", ".join(map(_found, open_)) or "nothing found"
    if outcome.verdict == "fails":
        return Text(f"assertion failed: {outcome.text}; {found}", "red")
    said = "passes" if outcome.ok else "does not pass"
    return Text(
        f"assertion undecided, {said}: {outcome.text}; {found}", "yellow" if outcome.ok else "red"
    )


def _found(one: Checked) -> str:
    reason = f", {one.reason}" if one.reason else ""
    return f"found {number(one.value)} ({label(one.variant)}{reason})"


def _table(report: Report) -> RenderableType:
    first = [row for row in report.rows if row in report.headline]
    rows = [
        row
        for row in (*first, *(r for r in report.rows if r not in first))
        if row.metric not in _DETAILS and not row.subject
    ]
    columns = _columns(rows)
    cells: dict[tuple[str, Column], Row] = {}
    runs: dict[str, int] = {}
    for row in rows:
        name = label(row.variant)
        cells[name, _column(row, columns)] = row
        trials = {run.trial for run in row.runs}  # one may give several values, one an event
        runs[name] = max(runs.get(name, 0), len(trials))
    return output.WideTable(
        ("variant", "n ", *(f"{' '.join(column)} " for column in columns)),
        [
            (name, str(n), *(_cell(cells.get((name, column))) for column in columns))
            for name, n in runs.items()
        ],
        DASH,
    )


def _columns(rows: Sequence[Row]) -> list[Column]:
    """Metric and unit; with the measurement before it where a variant measures one twice."""
    counts = Counter((label(row.variant), row.metric) for row in rows)
    twice = {metric for (_, metric), count in counts.items() if count > 1}
    named = (
        (row.measurement, row.metric, row.unit) if row.metric in twice else (row.metric, row.unit)
        for row in rows
    )
    return list(dict.fromkeys(named))


def _column(row: Row, columns: Sequence[Column]) -> Column:
    full = (row.measurement, row.metric, row.unit)
    return full if full in columns else full[1:]


def _cell(row: Row | None) -> str:
    if row is None:
        return DASH
    found = row.summary
    spread = f" ({number(found.minimum)}{DASH}{number(found.maximum)})"
    published = f" published {number(row.reference.value)}" if row.reference else ""
    return middle(found) + (spread if found.minimum != found.maximum else "") + published
