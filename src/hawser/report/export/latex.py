"""Tables as LaTeX, and a document with all figures and tables. It needs pdfLaTeX and booktabs."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from hawser.report.model import Report
from hawser.report.tables import Table
from hawser.report.words import clean

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "`": r"\textasciigrave{}",
    "'": r"\textquotesingle{}",
    "-": "-{}",  # two of them are no dash
    "[": "{[}",  # would begin an argument of the row's end before it
    "*": "{*}",  # would be part of the row's end before it
    "\N{EN DASH}": "--",
    "\N{EM DASH}": "---",
    "\N{MINUS SIGN}": r"\ensuremath{-}",
    "\N{MULTIPLICATION SIGN}": r"\ensuremath{\times}",
    "\N{PLUS-MINUS SIGN}": r"\ensuremath{\pm}",
    "\N{MIDDLE DOT}": r"\textperiodcentered{}",
    "\N{HORIZONTAL ELLIPSIS}": r"\ldots{}",
    "\N{RIGHTWARDS ARROW}": r"\ensuremath{\rightarrow}",
    "\N{LESS-THAN OR EQUAL TO}": r"\ensuremath{\le}",
    "\N{GREATER-THAN OR EQUAL TO}": r"\ensuremath{\ge}",
    "\N{MICRO SIGN}": r"\textmu{}",
    "\N{GREEK SMALL LETTER MU}": r"\textmu{}",
    "\N{DEGREE SIGN}": r"\textdegree{}",
    "\N{NO-BREAK SPACE}": "~",
}
_ROWS = 40
"""Lines of a table from which it may break across pages."""
_WIDE = 8
"""Columns from which a table is set in smaller type."""
_PAGE = 95
"""Characters that fit on a line of a table."""
_LONG = 18
"""Characters of a column that may be broken into lines."""


def escape(text: str) -> str:
    """Text as LaTeX that prints it: no character has an effect. What T1 lacks becomes `?`."""
    return "".join(map(_character, clean(text, 2000)))


def _character(character: str) -> str:
    known = _SPECIAL.get(character)
    if known is not None:
        return known
    if character.isspace():
        return " "
    if character.isascii() or "\N{LATIN SMALL LETTER SHARP S}" <= character <= "\u017e":
        return character if character.isascii() or character.isalpha() else "?"
    plain = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    return "".join(_SPECIAL.get(each, each) for each in plain) or "?"


def table(found: Table) -> str:
    """A table environment, or a `longtable` if it has more lines than a page."""
    long = len(found.rows) > _ROWS
    form = _form(found)
    head = " & ".join(escape(name) for name in found.columns) + r" \\"
    lines = [" & ".join(escape(cell) for cell in row) + r" \\" for row in found.rows]
    size = r"\scriptsize" if len(found.columns) >= _WIDE else r"\small"
    caption = rf"\caption{{{escape(found.caption)}}}"
    body = [r"\toprule", head, r"\midrule"]
    if long:
        parts = [
            rf"{{{size}\setlength{{\tabcolsep}}{{3pt}}",
            rf"\begin{{longtable}}{{{form}}}",
            rf"{caption}\\[4pt]",
            *body,
            r"\endhead",
            *lines,
            r"\bottomrule",
            r"\end{longtable}}",
        ]
    else:
        parts = [
            r"\begin{table}[htbp]",
            r"\centering",
            rf"{size}\setlength{{\tabcolsep}}{{3pt}}",
            rf"{caption}\smallskip",
            rf"\begin{{tabular}}{{{form}}}",
            *body,
            *lines,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
        ]
    return "\n".join(parts) + "\n"


def _form(found: Table) -> str:
    """Alignment of columns: numbers to the right; in a wide table, long texts in lines."""
    widest = [max(map(len, column)) for column in zip(found.columns, *found.rows, strict=True)]
    short = sum(width for width in widest if width <= _LONG)
    wraps = sum(widest) > _PAGE
    # Longer columns get more room, but not in proportion: they would starve the others.
    roots = sum(math.sqrt(width) for width in widest if width > _LONG)
    share = max(0.3, 0.9 - short / _PAGE - 0.02 * len(widest))
    return "".join(
        rf">{{\raggedright\arraybackslash}}p{{{share * math.sqrt(width) / roots:.2f}\linewidth}}"
        if wraps and width > _LONG
        else ("l" if at < found.names else "r")
        for at, width in enumerate(widest)
    )


@dataclass(frozen=True)
class Figured:
    """A figure of the document."""

    file: str
    """Without extension, relative to the document."""
    caption: str
    wide: bool


_HEAD = r"""% Compile with pdflatex. Take what you need from figures/ and tables/.
\documentclass[10pt,a4paper]{article}
\usepackage[T1]{fontenc}
\usepackage[utf8]{inputenc}
\usepackage{lmodern}
\usepackage{textcomp}
\usepackage[margin=20mm]{geometry}
\usepackage{graphicx}
\usepackage{array}
\usepackage{booktabs}
\usepackage{longtable}
\setlength{\abovecaptionskip}{4pt}
\setlength{\belowcaptionskip}{4pt}
"""


def document(report: Report, figures: Sequence[Figured], tables: Sequence[str]) -> str:
    """The document that shows all figures and tables.

    Args:
        report: for title, finding and provenance.
        figures: in order.
        tables: names of files in `tables/`, without extension, in order.
    """
    manifest = report.manifest
    state = "" if report.valid else " The run is not valid: do not rely on it."
    about = (
        f"Run {manifest.run}, Hawser {manifest.hawser}, on {manifest.machine.cpu},"
        f" Linux {manifest.machine.kernel}.{state}"
    )
    parts = [
        _HEAD,
        rf"\title{{{escape(manifest.title)}}}",
        rf"\author{{Hawser run \texttt{{{escape(manifest.run)}}}}}",
        rf"\date{{{manifest.started:%Y-%m-%d}}}",
        r"\begin{document}",
        r"\maketitle",
        escape(" ".join(report.finding)),
        "",
        rf"\medskip\noindent {escape(about)}",
        r"\section{Figures}",
        *map(_figure, figures),
        r"\clearpage",
        r"\section{Tables}",
        *(rf"\input{{tables/{name}}}" for name in tables),
        r"\end{document}",
    ]
    return "\n".join(parts) + "\n"


def _figure(one: Figured) -> str:
    size = r"[width=\linewidth]" if one.wide else r"[width=0.55\linewidth]"
    return "\n".join(
        [
            r"\begin{figure}[htbp]",
            r"\centering",
            rf"\includegraphics{size}{{{one.file}}}",
            rf"\caption{{{escape(one.caption)}}}",
            r"\end{figure}",
        ]
    )


_DOLLAR = re.compile(r"(?<!\\)\$")


def is_formula(text: str) -> bool:
    """Whether a text of a figure is a formula, as labels of logarithmic axes are."""
    return bool(_DOLLAR.search(text))


def in_figure(text: str) -> str:
    """Text of a figure as LaTeX. Formulas stay."""
    if is_formula(text):
        return text
    return "\n".join(escape(line.replace(r"\$", "$")) for line in text.split("\n"))
