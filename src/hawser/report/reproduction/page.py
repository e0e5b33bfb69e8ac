"""The page about reproductions, in Markdown."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from hawser.report.markdown import plain
from hawser.report.reproduction import numbers
from hawser.report.reproduction.model import Chapter, Claim, Entry, Exhibit, Outcome, Run
from hawser.report.words import DASH, clean, count

HEAD = """\
# Reproductions

Every table and figure of five publications that shows a result, and what Hawser gives for it.
Written by `hawser reproductions` from runs; do not edit by hand.

The published experiments ran on other hardware and in real clouds, at rates that the machine of
these runs may not carry: compare shapes and ratios, not absolute values. Where an experiment is
scaled, so are its published values. *Ours* is the median over trials. A claim of a publication
*holds* or *fails* where the trials decide it, which is wrong in at most 5 % of runs over all
assertions of a workflow; with too few trials for that, the values found *agree* or *disagree* with
it. Values are those of the newest valid run of each variant, if there is one. Runs may be of
different machines, and a machine is not equally fast every day: where the processor is the limit,
compare values of the same run only. *Not run* means that no run was given that has it."""

_KEY = """\
*Numbers*: how many published values were measured, and ours as multiples of them; a dash where the
document's text has none. *Claims*: whether what the publication says of its shape is found here."""

_RUNS = """\
Every run that was given, also those of workflows without a publication, at other rates (`--rates`
multiplies all rates and bounds in Mbit/s) and with another seed of order and losses. *Conditions*:
how many of the workflow's assertions hold, or agree as far as few trials say. *Valid*: yes, or
what is missing."""

_WORDS = {
    "holds": "holds",
    "fails": "**fails**",
    "agrees": "agrees",
    "disagrees": "**disagrees**",
    "not run": "not run",
}


def page(
    chapters: Sequence[Chapter],
    folder: Path,
    outcomes: Sequence[Outcome] = (),
    archives: Iterable[Path] = (),
) -> str:
    """Write the page.

    Args:
        chapters: what it says.
        folder: where it will lie; links to files are relative to it.
        outcomes: all runs.
        archives: of runs, named by their ids: the runs get links to them.
    """
    kept = {file.name.split(".")[0]: _from(folder, file) for file in archives}
    head = f"{HEAD} [All runs](#all-runs) are listed at the end." if outcomes else HEAD
    parts = [head, "## Overview", _KEY]
    parts += (_overview(chapter) for chapter in chapters)
    for chapter in chapters:
        publication = chapter.publication
        parts += [
            f"## {plain(publication.title)}",
            f"{plain(publication.authors)}; {plain(publication.where)}",
        ]
        parts += (_exhibit(exhibit, folder, kept) for exhibit in chapter.exhibits)
        rest = "; ".join(f"{name} ({about})" for name, about in publication.others.items())
        parts.append(f"Without a result of their own: {plain(rest)}.")
    if outcomes:
        parts += ['<a id="all-runs"></a>\n\n## All runs', _RUNS, _outcomes(outcomes, kept)]
    return "\n\n".join(parts) + "\n"


def _overview(chapter: Chapter) -> str:
    publication = chapter.publication
    rows = [
        (
            f"[{plain(one.name)}](#{_anchor(one)}): {plain(one.about)}",
            numbers.agreement([v for entry in one.entries for v in entry.values]),
            _shape([claim for entry in one.entries for claim in entry.claims]),
            _last(one),
        )
        for one in chapter.exhibits
    ]
    head = f"**{plain(publication.authors)}: {plain(publication.title)}**"
    columns = ("result", "numbers", "claims", "newest run")
    return f"{head}\n\n{numbers.table(columns, rows, names=4)}"


def _outcomes(outcomes: Sequence[Outcome], kept: Mapping[str, str]) -> str:
    rows = [
        (
            f"`{one.workflow}`",
            _code(_options(one.run.command)).replace("|", r"\|"),
            f"{one.measured} of {one.planned}",
            f"{one.true} of {one.checks}" if one.checks else DASH,
            "; ".join(map(plain, one.run.problems)) or "yes",
            _day(one.run),
            _named(one.run, kept),
        )
        for one in outcomes
    ]
    columns = ("workflow", "options", "variants", "conditions", "valid", "date", "run")
    return numbers.table(columns, rows, names=7)


def _shape(claims: Sequence[Claim]) -> str:
    if {claim.verdict for claim in claims} <= {"not run"}:
        return DASH
    by_verdict = {verdict: [c for c in claims if c.verdict == verdict] for verdict in _WORDS}
    found = [_counted(len(some), verdict) for verdict, some in by_verdict.items() if some]
    return _WORDS[claims[0].verdict] if len(claims) == 1 else ", ".join(found)


def _counted(claims: int, verdict: str) -> str:
    word = _WORDS[verdict]
    return f"{claims} {word if claims == 1 else word.replace(verdict, verdict.removesuffix('s'))}"


def _last(exhibit: Exhibit) -> str:
    if not exhibit.entries:
        return "no\N{NO-BREAK SPACE}workflow"
    if not exhibit.runs:
        return "not\N{NO-BREAK SPACE}run"
    run = exhibit.runs[0]
    return _day(run) + (" (invalid)" if run.problems else "")


def _day(run: Run) -> str:
    return f"{run.started:%Y-%m-%d}".replace("-", "\N{NON-BREAKING HYPHEN}")


def _anchor(exhibit: Exhibit) -> str:
    return re.sub(r"[^a-z0-9]+", "-", f"{exhibit.key} {exhibit.name}".lower()).strip("-")


def _exhibit(exhibit: Exhibit, folder: Path, kept: Mapping[str, str]) -> str:
    head = f'<a id="{_anchor(exhibit)}"></a>\n\n### {plain(exhibit.name)}: {plain(exhibit.about)}'
    if not exhibit.entries:
        return f"{head}\n\nNo workflow reproduces this. {exhibit.without}".rstrip()
    return "\n\n".join([head, *(_entry(entry, folder, kept) for entry in exhibit.entries)])


def _entry(entry: Entry, folder: Path, kept: Mapping[str, str]) -> str:
    workflow = entry.source.workflow
    where = _from(folder, Path(entry.source.file))
    parts = [
        f"Published: {plain(entry.item.finding)}",
        f"Workflow: [`{workflow.name}`]({where}), {plain(workflow.title)}.",
        _claims(entry.claims),
        _extent(entry),
        numbers.tables(entry),
    ]
    if entry.item.differs:
        parts.append("What differs:\n\n" + _list(map(plain, entry.item.differs)))
    if entry.runs:
        parts.append(_runs(entry.runs, kept))
    return "\n\n".join(filter(None, parts))


def _claims(claims: Sequence[Claim]) -> str:
    rows = [
        (
            plain(claim.text),
            _WORDS[claim.verdict],
            f"{claim.true} of {claim.checks}" if claim.checks else DASH,
        )
        for claim in claims
    ]
    return numbers.table(("claim", "here", "in checks"), rows, names=2) if rows else ""


def _extent(entry: Entry) -> str:
    if not entry.runs:
        return "Not run."
    if entry.measured < entry.planned:
        return f"Run: {entry.measured} of {count(entry.planned, 'variant')}."
    return ""


def _from(folder: Path, file: Path) -> str:
    return Path(os.path.relpath(file, folder)).as_posix()


def _named(run: Run, kept: Mapping[str, str]) -> str:
    return f"[`{run.run}`]({kept[run.run]})" if run.run in kept else f"`{run.run}`"


def _runs(runs: Sequence[Run], kept: Mapping[str, str]) -> str:
    return "\n".join(f"{number}. {_run(run, kept)}" for number, run in enumerate(runs, start=1))


def _run(run: Run, kept: Mapping[str, str]) -> str:
    state = f"invalid: {'; '.join(run.problems)}" if run.problems else "valid"
    remarks = [state]
    if run.void:
        remarks.append(f"{count(run.void, 'trial')} void")
    if run.changed:
        remarks.append("settings other than those of the file now")
    about = f"{run.started:%Y-%m-%d %H:%M} UTC, {run.machine}, {', '.join(remarks)}"
    command = _code(_asked(run.command))
    noted = "".join(f" {plain(note.rstrip('.'))}." for note in run.notes)
    return f"Run {_named(run, kept)}, {plain(about)}: {command}.{noted}"


_OWN = ("--out", "--tag")
"""Options that say where a run is kept, each with a value."""


def _asked(command: Sequence[str]) -> list[str]:
    """Give a command without what does not change its results."""
    return [
        word
        for before, word in pairwise(("", *command))
        if word not in _OWN and before not in _OWN and not word.startswith(("--out=", "--tag="))
    ]


def _code(words: Sequence[str]) -> str:
    text = clean(shlex.join(words), 1000).replace("`", "'")
    return f"`{text}`" if text else ""


def _options(command: Sequence[str]) -> list[str]:
    """Give what stands after `hawser run` beside the file."""
    return [word for word in _asked(command)[2:] if Path(word).suffix not in (".yaml", ".yml")]


def _list(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)
