"""Output of subcommands: results on standard output, everything else on standard error."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import JustifyMethod, RenderableType
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


def duration(seconds: float) -> str:
    """Seconds in words: `14 s`, `3 min 20 s`, `2 h 5 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    minutes = whole // 60
    return f"{minutes // 60} h {minutes % 60} min" if minutes % 60 else f"{minutes // 60} h"
