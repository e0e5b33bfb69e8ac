"""A comparison of runs in all its formats."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from markupsafe import Markup
from rich.console import Group, RenderableType
from rich.text import Text

from hawser.report import markdown
from hawser.report import text as terminal
from hawser.report.compare import FEWEST, Comparison, Form, Line
from hawser.report.figures.dots import dots
from hawser.report.model import Layout, Row
from hawser.report.page import NARROW, WIDE, environment, figure
from hawser.report.tables import Table, caption
from hawser.report.words import (
    DASH,
    count,
    effect_interval,
    effect_value,
    join,
    number,
    percent,
    probability,
)
from hawser.spec.workflow import Labels
from hawser.stats import Effect
from hawser.store import label

_TITLE = "Runs side by side"


def render_comparison(comparison: Comparison, form: Form) -> bytes:
    """Write a comparison, text in UTF-8. The same runs give the same bytes."""
    forms: dict[str, Callable[[Comparison], str]] = {
        "html": _html,
        "md": _markdown,
        "json": lambda c: json.dumps(document(c), indent=1, ensure_ascii=False) + "\n",
        "text": lambda c: terminal.text(renderable_comparison(c), 140),
    }
    return forms[form](comparison).encode()


def finding(comparison: Comparison) -> str:
    """Say how many values changed, and in which direction, or why that cannot be said."""
    effects = [one for line in comparison.lines for one in line.effects if one is not None]
    if not comparison.reference:
        return (
            f"{count(len(effects), 'value')} compared with the first run, without verdicts: two"
            " runs of the same system differ, too. For verdicts, compare three runs a side"
            " (--against), or interleave both in one run (hawser run FILE --against RUN)."
        )
    known = [one for one in effects if one.interval is not None]
    up = sum(_change(one) == "higher" for one in effects)
    down = sum(_change(one) == "lower" for one in effects)
    few = len(effects) - len(known)
    parts = [
        f"{up} higher",
        f"{down} lower",
        f"{len(known) - up - down} not shown to differ",
        *([f"{few} with too few runs to tell (three a side are needed)"] if few else []),
    ]
    return f"{count(len(effects), 'value')} compared with the reference: {join(parts)}."


def _change(effect: Effect) -> str:
    if not effect.clear:
        return ""
    return "higher" if effect.value > (effect.kind == "ratio") else "lower"


def letters(comparison: Comparison) -> tuple[str, ...]:
    """Short names of the runs: A, B, C ...; of sides: A1, A2, A3, B1, B2 ..."""
    if not comparison.reference:
        return tuple(_letter(index) for index in range(len(comparison.runs)))
    others = len(comparison.runs) - comparison.reference
    first = (f"A{at}" for at in range(1, comparison.reference + 1))
    return (*first, *(f"B{at}" for at in range(1, others + 1)))


def _letter(index: int) -> str:
    return (_letter(index // 26 - 1) if index >= 26 else "") + chr(ord("A") + index % 26)


def runs_table(comparison: Comparison) -> Table:
    """Which runs are compared."""
    rows = [
        (
            name,
            run.run,
            f"{run.started:%Y-%m-%d %H:%M %Z}",
            run.hawser + (f" ({run.revision.commit[:12]})" if run.revision else ""),
            f"{run.machine.cpu}, Linux {run.machine.kernel}",
            "valid" if valid else "not valid",
        )
        for name, run, valid in zip(
            letters(comparison), comparison.runs, comparison.valid, strict=True
        )
    ]
    return Table("Runs", ("", "run", "started", "Hawser", "machine", "state"), tuple(rows), 6)


def result_tables(comparison: Comparison) -> list[Table]:
    """One table a metric, the headline's first."""
    groups: dict[tuple[str, ...], list[Line]] = {}
    rest = [line for line in comparison.lines if line not in comparison.headline]
    for line in (*comparison.headline, *rest):
        row = line.any
        key = ("",) if line in comparison.headline else (row.measurement, row.metric, row.direction)
        groups.setdefault(key, []).append(line)
    return [_table(comparison, lines) for lines in groups.values()]


def _table(comparison: Comparison, lines: Sequence[Line]) -> Table:
    layout, names = comparison.layout, letters(comparison)
    axes = (*layout.group_axes, layout.axis) if layout.axis else ("variant",)
    heads = [f"{name}: median (n)" for name in names]
    spreads = len(comparison.runs) >= FEWEST
    if comparison.reference:
        heads += ["A, between runs", "B, between runs", "B / A", "95 % CI", "p (Holm)", "change"]
    else:
        heads += [f"{name} / {names[0]}" for name in names[1:]]
        heads += ["between runs"] if spreads else []
    rows = []
    for line in lines:
        cells = [_cell(row) for row in line.rows]
        ratios = [DASH if one is None else effect_value(one) for one in line.effects]
        between = [percent(one) for one in line.spread]
        if comparison.reference:
            cells += [*between, *ratios, *_verdict(line.effects[0])]
        else:
            cells += [*ratios, *(between if spreads else ())]
        rows.append((*_axis_values(layout, axes, line.variant), *cells))
    return Table(caption([line.any for line in lines]), (*axes, *heads), tuple(rows), len(axes))


def _axis_values(layout: Layout, axes: Sequence[str], variant: Labels) -> list[str]:
    return [variant.get(axis, DASH) for axis in axes] if layout.axis else [label(variant)]


def _cell(row: Row | None) -> str:
    if row is None:
        return DASH
    return f"{number(row.summary.median)} ({row.summary.n})"


def _verdict(effect: Effect | None) -> tuple[str, str, str]:
    if effect is None:
        return DASH, DASH, DASH
    unclear = "not shown" if effect.close else "too few runs"
    return effect_interval(effect), probability(effect.adjusted), _change(effect) or unclear


def document(comparison: Comparison) -> dict[str, object]:
    """The comparison as one JSON object."""
    return {
        "runs": [
            {"run": run.run, "workflow": run.workflow, "valid": valid}
            for run, valid in zip(comparison.runs, comparison.valid, strict=True)
        ],
        "reference": [run.run for run in comparison.runs[: comparison.reference]],
        "differences": list(comparison.differences),
        "rows": [_json_row(line) for line in comparison.lines],
    }


def _json_row(line: Line) -> dict[str, object]:
    row = line.any
    return {
        "variant": line.variant,
        "measurement": row.measurement,
        "metric": row.metric,
        "unit": row.unit,
        "direction": row.direction,
        "subject": row.subject,
        "n": [found and found.summary.n for found in line.rows],
        "median": [found and found.summary.median for found in line.rows],
        "ratio": [one.value if one and one.kind == "ratio" else None for one in line.effects],
        "difference": [
            one.value if one and one.kind == "difference" else None for one in line.effects
        ],
        "ci95": [
            [one.interval.low, one.interval.high] if one and one.interval else None
            for one in line.effects
        ],
        "p_holm": [one and one.adjusted for one in line.effects],
        "told_apart": [one and one.verdict for one in line.effects],
        "between_runs": list(line.spread),
    }


def renderable_comparison(comparison: Comparison) -> RenderableType:
    """The comparison for `rich.console.Console.print`."""
    parts: list[RenderableType] = [terminal.line(_TITLE, "bold"), Text()]
    parts += [terminal.grid(runs_table(comparison)), Text()]
    if comparison.differences:
        parts += [terminal.bullets("Notes:", comparison.differences, "yellow"), Text()]
    parts += [terminal.line(finding(comparison)), Text()]
    for table in result_tables(comparison):
        parts += [terminal.grid(table), Text()]
    return Group(*parts)


def _markdown(comparison: Comparison) -> str:
    parts = [f"# {_TITLE}", markdown.table(runs_table(comparison))]
    parts += ["\n".join(f"- {markdown.plain(one)}" for one in comparison.differences)]
    parts += [markdown.plain(finding(comparison))]
    parts += (markdown.table(table) for table in result_tables(comparison))
    return "\n\n".join(filter(None, parts)) + "\n"


def _html(comparison: Comparison) -> str:
    return (
        environment()
        .get_template("compare.html")
        .render(
            title=_TITLE,
            finding=finding(comparison),
            differences=comparison.differences,
            runs=runs_table(comparison),
            chart=_chart(comparison),
            results=result_tables(comparison),
            sides=bool(comparison.reference),
        )
    )


def _chart(comparison: Comparison) -> Markup | None:
    """The chart of the headline metric: a group for each variant, a series for each run."""
    names = letters(comparison)
    rows = [
        row.model_copy(update={"variant": {"variant": label(line.variant), "run": name}})
        for line in comparison.headline
        for name, row in zip(names, line.rows, strict=True)
        if row is not None
    ]
    if not rows:
        return None
    groups = tuple(dict.fromkeys(row.variant["variant"] for row in rows))
    layout = Layout(axis="run", group_axes=("variant",), groups=groups, series=names)
    return figure(dots(rows, layout, WIDE, columns=True), dots(rows, layout, NARROW, columns=False))
