"""What verbs write: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, JustifyMethod
    from rich.table import Table


def document(value: object) -> None:
    """Print one JSON document."""
    json.dump(value, sys.stdout, ensure_ascii=False, indent=1)
    sys.stdout.write("\n")


def console() -> Console:
    """For results on standard output; as wide as they are where that is no terminal."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else _WIDE)


_WIDE = 1000
"""Columns of what is not a terminal: nothing is cut or folded."""


def text(content: str) -> None:
    """Print text as it is."""
    sys.stdout.write(content)


def say(text: str) -> None:
    """Say something besides the result."""
    sys.stderr.write(f"{text}\n")


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], title: str = "") -> Table:
    """A plain table; columns whose heading ends in a space are aligned to the right."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, title=title or None, title_justify="left", pad_edge=False)
    for column in columns:
        justify: JustifyMethod = "right" if column.endswith(" ") else "left"
        made.add_column(column.strip(), justify=justify, overflow="fold")
    for row in rows:
        made.add_row(*map(escape, row))
    return made


def duration(seconds: float) -> str:
    """Seconds for people: `14 s`, `3 min 20 s`, `2 h 5 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    minutes = whole // 60
    return f"{minutes // 60} h {minutes % 60} min" if minutes % 60 else f"{minutes // 60} h"
