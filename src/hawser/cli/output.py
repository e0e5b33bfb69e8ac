"""Output of subcommands: results on standard output, everything else on standard error."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import (
        Console,
        ConsoleOptions,
        JustifyMethod,
        RenderableType,
        RenderResult,
    )
    from rich.table import Table


def document(value: object) -> None:
    """Print one JSON document."""
    json.dump(value, sys.stdout, ensure_ascii=False, indent=1)
    sys.stdout.write("\n")


def raw(text: str) -> None:
    """Write a result as it is."""
    sys.stdout.write(text)


def show(what: RenderableType) -> None:
    """Print a result in the terminal's width and colours, or as plain text that is never cut."""
    from rich.console import Console

    if sys.stdout.isatty():
        Console(highlight=False).print(what)
        return
    plain = Console(file=io.StringIO(), width=_WIDE, color_system=None, highlight=False)
    with plain.capture() as captured:
        plain.print(what)
    sys.stdout.writelines(f"{line.rstrip()}\n" for line in captured.get().splitlines())


_WIDE = 400
"""Columns where there is no terminal."""
_BETWEEN = 3
"""Columns of the terminal between two of a table."""


def line(content: str, style: str = "") -> None:
    """Print a line of a result."""
    from rich.text import Text

    show(Text(content, style=style))


def say(text: str) -> None:
    """Print a message besides the result."""
    sys.stderr.write(f"{text}\n")


def table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], whole: Sequence[str] = ()
) -> Table:
    """A plain table.

    Columns whose heading ends in a space are right-aligned; those in `whole` are never folded.
    """
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        justify: JustifyMethod = "right" if column.endswith(" ") else "left"
        name = column.strip()
        made.add_column(name, justify=justify, overflow="fold", no_wrap=name in whole)
    for row in rows:
        made.add_row(*map(escape, row))
    return made


@dataclass(frozen=True)
class WideTable:
    """A table that is continued below where the terminal is too narrow for all its columns.

    Each part begins with the first column, and leaves rows out that have nothing in it. No word is
    cut, unless it alone is too wide.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    nothing: str = ""
    """Cell without a value."""

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        """Give the parts, an empty line between them."""
        shown: list[int] = []
        for place in range(1, len(self.columns)):
            wider = [0, *shown, place]
            if shown and _total(self._least(wider, options.max_width)) > options.max_width:
                yield self._part([0, *shown], options.max_width)
                yield ""
                shown = []
            shown.append(place)
        yield self._part([0, *shown], options.max_width)

    def _part(self, places: Sequence[int], width: int) -> Table:
        rows = [[row[place] for place in places] for row in self.rows]
        filled = [row for row in rows if any(cell != self.nothing for cell in row[1:])]
        made = table([self.columns[place] for place in places], filled or rows)
        widths = self._least(places, width)
        spare = width - _total(widths)
        for column, place, least in zip(made.columns, places, widths, strict=True):
            more = max(0, min(spare, max(map(len, self._texts(place))) - least))
            column.width = least + more
            spare -= more
        return made

    def _least(self, places: Sequence[int], width: int) -> list[int]:
        """Least widths of columns; the first one's rows are whole up to a third of the terminal."""
        names = min(max(map(len, self._texts(0))), width // 3)
        first, *others = map(self._longest, places)
        return [max(first, names), *others]

    def _longest(self, place: int) -> int:
        """Longest word of a column."""
        return max(len(word) for text in self._texts(place) for word in text.split() or [""])

    def _texts(self, place: int) -> Sequence[str]:
        return (self.columns[place].strip(), *(row[place] for row in self.rows))


def _total(widths: Iterable[int]) -> int:
    """Width of a plain table with columns of these widths."""
    return sum(width + _BETWEEN for width in widths) - _BETWEEN


def duration(seconds: float) -> str:
    """Seconds in words: `14 s`, `3 min 20 s`, `2 h 5 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    minutes = whole // 60
    return f"{minutes // 60} h {minutes % 60} min" if minutes % 60 else f"{minutes // 60} h"
