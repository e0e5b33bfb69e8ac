"""The report for a terminal."""

from __future__ import annotations

import io
from collections.abc import Iterable

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from hawser.report import attacks, cloud, tables
from hawser.report.model import Report
from hawser.report.tables import Table
from hawser.report.words import clean

_WIDTH = 110


def renderable(report: Report) -> RenderableType:
    """The report for `rich.console.Console.print`, in colour if the terminal has it."""
    parts: list[RenderableType] = [line(report.manifest.title, "bold")]
    if report.problems:
        parts.append(bullets("These results must not be relied on:", report.problems, "red"))
    parts += [Text(), line(" ".join(report.finding)), Text()]
    shown = [
        *tables.results(report),
        tables.comparisons(report),
        tables.regressions(report),
        tables.bottlenecks(report),
        cloud.elements(report.workflow),
        *attacks.tables(report),
        tables.assertions(report),
        tables.exclusions(report),
    ]
    for one in shown:
        if one is not None:
            parts += [grid(one), Text()]
    if report.warnings:
        parts.append(bullets("Warnings:", report.warnings, "yellow"))
    return Group(*parts)


def text(what: RenderableType, width: int = _WIDTH) -> str:
    """Plain text of the given width, without colours."""
    stream = io.StringIO()
    Console(file=stream, width=width, color_system=None, legacy_windows=False).print(what)
    return "\n".join(part.rstrip() for part in stream.getvalue().splitlines()) + "\n"


def grid(one: Table) -> RenderableType:
    """A table with its caption."""
    found = Grid(
        title=line(one.caption, "bold"), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False
    )
    for index, column in enumerate(one.columns):
        found.add_column(line(column), justify="left" if index < one.names else "right")
    for row in one.rows:
        found.add_row(*(line(cell, _style(cell)) for cell in row))
    return found


def bullets(title: str, items: Iterable[str], style: str) -> RenderableType:
    """A short list."""
    lines = [Padding(line(f"- {item}"), (0, 0, 0, 2)) for item in items]
    return Group(line(title, style), *lines)


def line(content: str, style: str = "") -> Text:
    """Text in one line, without markup or control characters."""
    return Text(" ".join(clean(content, 10_000).split()), style=style)


def _style(cell: str) -> str:
    styles = {"fails": "bold red", "holds": "green", "yes": "green", "undecided": "yellow"}
    return styles.get(cell.partition(":")[0], "")
