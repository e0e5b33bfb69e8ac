"""A report in any of its formats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

from hawser.report.data import dumps, table
from hawser.report.junit import junit
from hawser.report.markdown import markdown
from hawser.report.model import Report
from hawser.report.page import html
from hawser.report.text import renderable, text

Format = Literal["html", "md", "json", "csv", "png", "junit", "text"]
FORMATS: tuple[Format, ...] = get_args(Format)

_TEXT: dict[str, Callable[[Report], str]] = {
    "html": html,
    "md": markdown,
    "json": dumps,
    "csv": table,
    "junit": junit,
    "text": lambda report: text(renderable(report)),
}


def render(report: Report, form: Format) -> bytes:
    """Write a report, text in UTF-8. The same report gives the same bytes."""
    if form == "png":
        from hawser.report.poster import (
            poster,
        )  # matplotlib takes longer to import than everything else

        return poster(report)
    return _TEXT[form](report).encode()
