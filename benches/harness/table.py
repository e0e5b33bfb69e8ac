"""Rows and checks as tables, for the terminal and in Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from harness.bench import Bench, Metric
from harness.result import Check, Figure, Result, Row
from harness.run import Outcome


def show(console: Console, bench: Bench, result: Result, outcome: Outcome) -> None:
    """Print the table, what is missing and the checks."""
    console.print(_table(bench, result))
    for line in remarks(bench, outcome):
        console.print(f"[yellow]{escape(line)}[/yellow]")
    for check in result.checks:
        mark = "[green]ok[/green]" if check.ok else "[red]FAILED[/red]"
        console.print(f"{mark} {escape(check.name)}: {number(check.value)} ({number(check.limit)})")
    for figure in result.figures:
        value, aim = number(figure.value), number(figure.aim)
        console.print(f"not judged: {escape(figure.name)}: {value} (aim: {aim})")


def _table(bench: Bench, result: Result) -> Table:
    table = Table(title=f"{bench.title}: medians", box=SIMPLE_HEAD, show_edge=False)
    table.add_column("", no_wrap=True)
    for metric in bench.metrics:
        heading = f"{metric.heading.replace(', ', chr(10))}\n{metric.unit}"
        table.add_column(heading, justify="right", overflow="fold", vertical="bottom")
    for peer in bench.peers:
        cells = [_median(_find(result.rows, peer.name, m), m) for m in bench.metrics]
        table.add_row(peer.name, *cells)
    return table


def markdown(bench: Bench, result: Result) -> list[str]:
    """The rows as a Markdown table: median (least to largest)."""
    headings = [f"{metric.heading}, {metric.unit}" for metric in bench.metrics]
    lines = [_line(["", *headings]), _line(["---", *("---:" for _ in headings)])]
    for peer in bench.peers:
        cells = [_spread(_find(result.rows, peer.name, metric), metric) for metric in bench.metrics]
        lines.append(_line([peer.name, *cells]))
    return lines


def markdown_checks(checks: Sequence[Check]) -> list[str]:
    """The checks as a Markdown table."""
    lines = [_line(["check", "value", "limit", ""]), _line(["---", "---:", "---:", "---"])]
    return lines + [
        _line(
            [check.name, number(check.value), number(check.limit), "ok" if check.ok else "FAILED"]
        )
        for check in checks
    ]


def markdown_figures(figures: Sequence[Figure]) -> list[str]:
    """Absolute figures as a Markdown table; nothing if there are none."""
    if not figures:
        return []
    lines = [_line(["depends on the machine, not judged", "value", "aim"])]
    lines.append(_line(["---", "---:", "---:"]))
    return lines + [_line([each.name, number(each.value), number(each.aim)]) for each in figures]


def remarks(bench: Bench, outcome: Outcome) -> list[str]:
    """One line each for missing peers, failed samples and disturbed samples."""
    missing = [f"{peer.name} is missing: {peer.missing}" for peer in bench.peers if peer.missing]
    failed = [
        f"{failure.peer}, {failure.workload}, round {failure.round + 1} failed: {failure.reason}"
        for failure in outcome.failures
    ]
    return missing + failed + disturbance(outcome)


def disturbance(outcome: Outcome) -> list[str]:
    """A line with the number of disturbed samples, if there are any."""
    if not outcome.disturbed:
        return []
    return [
        f"{outcome.disturbed} of {outcome.taken} samples were taken while others used the machine"
    ]


def number(value: float | None) -> str:
    """Format with three significant digits, or as a whole number; a dash for None."""
    if value is None:
        return "-"
    return f"{value:.3g}" if abs(value) < _THOUSAND else f"{value:.0f}"


_THOUSAND = 1000


def _find(rows: Sequence[Row], peer: str, metric: Metric) -> Row | None:
    return next((row for row in rows if (row.name, row.metric) == (peer, metric.name)), None)


def _median(row: Row | None, metric: Metric) -> str:
    if row is None:
        return ""
    return "missing" if row.median is None else f"{row.median:.{metric.digits}f}"


def _spread(row: Row | None, metric: Metric) -> str:
    if row is None or row.min is None or row.max is None:
        return _median(row, metric)
    low, high = (f"{value:.{metric.digits}f}" for value in (row.min, row.max))
    return f"{_median(row, metric)} ({low} to {high})"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
