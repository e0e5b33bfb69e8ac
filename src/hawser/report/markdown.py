"""The report as Markdown, for a pull request or a wiki."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

from hawser.report import attacks, cloud, tables
from hawser.report.model import Report
from hawser.report.tables import Table
from hawser.report.words import clean

_SPECIAL = re.compile(r"([\\`*_\[\]|#~])")


def markdown(report: Report) -> str:
    """Write the report."""
    manifest = report.manifest
    parts = [f"# {plain(manifest.title)}", plain(report.workflow.description)]
    if report.workflow.source:
        parts.append(f"After {plain(report.workflow.source)}")
    if report.problems:
        parts += ["**These results must not be relied on:**", _list(report.problems)]
    parts += ["## Finding", " ".join(map(plain, report.finding)), "## Numbers"]
    parts += (table(one) for one in tables.results(report))
    parts += _optional(tables.comparisons(report))
    parts += _optional(tables.regressions(report))
    if report.unmatched:
        parts += ["Published values not measured here:", _list(report.unmatched)]
    parts += _optional(tables.bottlenecks(report))
    parts += _optional(cloud.elements(report.workflow))
    parts += (table(one) for one in attacks.tables(report))
    parts += (table(one) for one in tables.counters(report))
    parts += ["## Checks", _list(report.warnings) or "No warnings."]
    parts += _optional(tables.assertions(report))
    parts += _optional(tables.exclusions(report)) or ["No run was excluded."]
    parts += _optional(tables.order(report))
    parts += ["## Provenance", code(shlex.join(manifest.command))]
    parts += [
        _list(
            f"{name}: {text}"
            for name, text in (*tables.provenance(report), *tables.settings(report))
        )
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def table(one: Table) -> str:
    """A table with its caption."""
    rule = ["---"] * one.names + ["--:"] * (len(one.columns) - one.names)
    rows = [map(plain, one.columns), rule, *(map(plain, row) for row in one.rows)]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([f"**{plain(one.caption)}**", "", *lines])


def plain(text: str) -> str:
    """Text in one line, without special meaning in Markdown or HTML."""
    text = " ".join(clean(text, 10_000).split())
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(r"\\\1", text)


def code(text: str) -> str:
    """A code block, its fence longer than any in the text."""
    text = clean(text, 10_000)
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


def _list(items: Iterable[str]) -> str:
    return "\n".join(f"- {plain(item)}" for item in items)


def _optional(one: Table | None) -> list[str]:
    return [] if one is None else [table(one)]
