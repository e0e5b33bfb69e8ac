"""Section of docs/benchmarks.md that a bench maintains."""

from __future__ import annotations

from pathlib import Path

from harness.bench import Bench
from harness.machine import Machine
from harness.result import Result
from harness.run import Outcome
from harness.table import markdown, markdown_checks, markdown_figures, remarks

HEAD = """# Benchmarks

Written by the benches (`make bench-NAME`), each its own section; do not edit by hand. All rows of a
section come from one run on one machine, its samples interleaved in random order; figures are
medians (least to largest). Compare rows with each other, not with rows of another machine.
"""


class DocsError(Exception):
    """The section markers of the page are damaged; the text says where."""


def check_page(page: Path, name: str) -> None:
    """Check that `renew` will work before hours are spent on measuring.

    Raises:
        DocsError: the section's markers in the page do not pair.
    """
    replaced(_text(page), name, "")


def renew(page: Path, name: str, section: str) -> None:
    """Replace the bench's previous section, or append the section to the page.

    Raises:
        DocsError: the section's markers in the page do not pair.
    """
    partial = page.with_suffix(".partial")
    partial.write_text(replaced(_text(page), name, section))
    partial.replace(page)


def replaced(text: str, name: str, section: str) -> str:
    """Replace the section between the markers of `name`; leave the rest of `text` unchanged.

    Raises:
        DocsError: the markers do not pair.
    """
    begin, end = (f"<!-- bench {name}: {edge} -->" for edge in ("begin", "end"))
    block = f"{begin}\n{section.strip()}\n{end}"
    counts = (text.count(begin), text.count(end))
    if counts == (0, 0):
        return f"{text.rstrip()}\n\n{block}\n"
    if counts != (1, 1) or text.index(begin) > text.index(end):
        raise DocsError(f"docs/benchmarks.md: expected `{begin}` once and `{end}` once after it")
    before, _, rest = text.partition(begin)
    return f"{before}{block}{rest.partition(end)[2]}"


def _text(page: Path) -> str:
    return page.read_text() if page.exists() else HEAD


def section(bench: Bench, result: Result, outcome: Outcome) -> str:
    """Text of the section: what, where, when, figures, checks, and how to repeat the run."""
    parts = [
        f"## {bench.title}",
        bench.about,
        _measured(result.machine, outcome),
        "\n".join(markdown(bench, result)),
        "\n".join(f"- {line}" for line in remarks(bench, outcome)),
        "\n".join(markdown_checks(result.checks)),
        "\n".join(markdown_figures(result.figures)),
        f"Repeat: `make bench-{bench.name}`; all values: `target/bench/{bench.name}.json`.",
    ]
    return "\n\n".join(part for part in parts if part)


def _measured(machine: Machine, outcome: Outcome) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in machine.software.items())
    return (
        f"{machine.date}, revision {machine.revision}. {machine.cpu}, {machine.cores} cores, "
        f"{machine.memory_gib:g} GiB; {machine.system}, Linux {machine.kernel}. "
        f"{outcome.rounds} rounds, seed {machine.seed}, {outcome.minutes:.0f} minutes. "
        f"Versions: {versions}."
    )
