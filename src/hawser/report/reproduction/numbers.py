"""Published and measured values as tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hawser.report.markdown import plain
from hawser.report.reproduction.model import Entry, Run, Value
from hawser.report.words import DASH, TIMES, count, interval, middle, number, term
from hawser.spec.workflow import Labels
from hawser.store import label

_SHOWN = 24
"""Rows of a table that is shown without being unfolded."""

_ACROSS = 8
"""Columns of a cross table at most."""


def agreement(values: Iterable[Value]) -> str:
    """How many published values are measured, and how near they are."""
    published = [value for value in values if value.published is not None]
    if not published:
        return DASH
    ratios = sorted(value.ratio for value in published if value.ratio is not None)
    if not ratios:
        return f"0 of {len(published)}"
    between = f"{ratios[0]:.2f}" + (f" to {ratios[-1]:.2f}" if len(ratios) > 1 else "")
    return f"{len(ratios)} of {len(published)}, {between}{TIMES}"


def tables(entry: Entry) -> str:
    """The values of an item: a table for each metric; those without a published value folded."""
    parts = []
    for metric in entry.item.metrics:
        of_metric = [v for v in entry.values if v.metric == metric and not v.subject]
        published = [v for v in of_metric if v.published is not None]
        others = [v for v in of_metric if v.published is None]
        if published:
            parts.append(f"{_caption(published)}\n\n{_list(entry, published)}")
        if others:
            caption = _caption(others) + (
                ", variants without a published value" if published else ""
            )
            body = _cross(entry, others) or _list(entry, others)
            folded = bool(published) or body.count("\n") > _SHOWN
            parts.append(_folded(caption, body) if folded else f"{caption}\n\n{body}")
    return "\n\n".join(parts)


def _caption(values: Sequence[Value]) -> str:
    value = values[0]
    trials = sorted({v.summary.n for v in values if v.summary is not None})
    over = ""
    if trials:
        span = str(trials[0]) if len(trials) == 1 else f"{trials[0]} to {trials[-1]}"
        over = f", median of {span} trials" if trials != [1] else ", one trial"
    return plain(f"{term(value.metric).title}, {value.unit}{over}")


def _folded(caption: str, body: str) -> str:
    rows = count(body.count("\n") - 1, "row")
    return f"<details><summary>{caption} ({rows})</summary>\n\n{body}\n\n</details>"


def _axes(values: Sequence[Value]) -> list[str]:
    """The axes whose labels tell the values apart, in the workflow's order."""
    found: dict[str, set[str | None]] = {}
    for axis in dict.fromkeys(axis for value in values for axis in value.variant):
        found[axis] = {value.variant.get(axis) for value in values}
    return [axis for axis, labels in found.items() if len(labels) > 1]


def _list(entry: Entry, values: Sequence[Value]) -> str:
    """A row for each value."""
    axes = _axes(values)
    published = any(value.published is not None for value in values)
    which = len({value.measurement for value in values} - {""}) > 1
    several = len(entry.runs) > 1 or any(value.run is None for value in values)
    columns = {
        **{axis: [_names((axis,), value.variant)[0] for value in values] for axis in axes},
        **({} if axes else {"variant": [_names((), value.variant)[0] for value in values]}),
        **({"measurement": [plain(v.measurement) or DASH for v in values]} if which else {}),
    }
    names = len(columns)
    if published:
        columns["published"] = [number(value.published) for value in values]
    columns["ours"] = [_ours(value) for value in values]
    if any(value.summary is not None and value.summary.interval for value in values):
        columns["95 % interval"] = [_interval(value) for value in values]
    if published:
        ratios = (value.ratio for value in values)
        columns["ours / published"] = [DASH if r is None else f"{r:.2f}" for r in ratios]
    if several:
        columns["run"] = [_number_of(entry.runs, value.run) for value in values]
    return table([*columns], zip(*columns.values(), strict=True), names)


def _names(axes: Sequence[str], variant: Labels) -> tuple[str, ...]:
    if not axes:
        return (plain(label(variant)),)
    return tuple(plain(variant.get(axis, "any")) for axis in axes)


def _ours(value: Value) -> str:
    return "not\N{NO-BREAK SPACE}run" if value.summary is None else middle(value.summary)


def _interval(value: Value) -> str:
    return DASH if value.summary is None else interval(value.summary.interval)


def _number_of(runs: Sequence[Run], run: Run | None) -> str:
    return DASH if run is None else str([one.run for one in runs].index(run.run) + 1)


def _cross(entry: Entry, values: Sequence[Value]) -> str:
    """A table with the last axis across; empty where that does not fit."""
    axes = _axes(values)
    places = {(tuple(sorted(v.variant.items())), v.measurement) for v in values}
    if len(axes) < 2 or len(places) < len(values) or len({v.measurement for v in values}) > 1:
        return ""
    *down, across = axes
    columns = list(dict.fromkeys(value.variant.get(across, DASH) for value in values))
    if len(columns) > _ACROSS:
        return ""
    cells: dict[tuple[str, ...], dict[str, str]] = {}
    for value in values:
        run = f" ({_number_of(entry.runs, value.run)})" if len(entry.runs) > 1 else ""
        row = cells.setdefault(_names(down, value.variant), {})
        row[value.variant.get(across, DASH)] = _ours(value) + run
    rows = [(*name, *(row.get(column, "") for column in columns)) for name, row in cells.items()]
    return table((*down, *map(plain, columns)), rows, len(down))


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], names: int) -> str:
    """A table whose cells are Markdown; the first `names` columns are names, the rest numbers."""
    rule = ["---"] * names + ["--:"] * (len(columns) - names)
    return "\n".join(f"| {' | '.join(row)} |" for row in (columns, rule, *rows))
