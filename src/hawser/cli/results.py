"""`hawser report`, `compare` and `query`: results of runs."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hawser.cli import options, output

if TYPE_CHECKING:
    from hawser.report.model import Report
    from hawser.store import Bundle


class ReportFormat(StrEnum):
    """Formats of a report."""

    TEXT = "text"
    HTML = "html"
    MD = "md"
    JSON = "json"
    CSV = "csv"
    PNG = "png"
    JUNIT = "junit"


class AxisScale(StrEnum):
    """Scales of the axes of exported figures."""

    AUTO = "auto"
    LINEAR = "linear"
    LOG = "log"


class ComparisonFormat(StrEnum):
    """Formats of a comparison."""

    TEXT = "text"
    HTML = "html"
    MD = "md"
    JSON = "json"


def report(
    run: options.RunArgument,
    form: Annotated[
        ReportFormat | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="html, md, json, csv, png, junit or text. Default: by the output file's name.",
        ),
    ] = None,
    file: options.OutputOption = None,
    export: Annotated[
        Path | None,
        typer.Option(
            "--export",
            metavar="DIR",
            help="Write figures (SVG, PDF, PGF), tables (LaTeX, CSV) and `report.tex` into DIR.",
        ),
    ] = None,
    axes: Annotated[
        AxisScale,
        typer.Option(
            "--axes",
            metavar="SCALE",
            help="Of exported figures: auto, linear or log. `auto` is log over more than two"
            " decades.",
        ),
    ] = AxisScale.AUTO,
    folder: options.RunsOption = options.RUNS,
) -> None:
    """Show the results of a run, also of an unfinished one."""
    from hawser.cli import chosen, extras
    from hawser.report.build import build
    from hawser.report.render import render
    from hawser.report.text import renderable

    bundle = chosen.bundle(run, folder)
    made = build(bundle)
    if export is not None:
        if form is not None or file is not None:
            raise typer.BadParameter(
                "cannot be combined with --format or -o", param_hint="--export"
            )
        _export(bundle, made, export, axes)
        return
    wanted = ReportFormat(_form(form, file, ReportFormat))
    if wanted is ReportFormat.PNG:
        extras.need("png")
    if wanted is ReportFormat.TEXT and file is None:
        output.show(renderable(made))
        return
    _write(render(made, wanted.value), file)


def _export(bundle: Bundle, made: Report, folder: Path, axes: AxisScale) -> None:
    from hawser.cli import extras

    extras.need("png")
    from hawser.report.export.write import ExportError, export

    try:
        done = export(bundle, made, folder, axes.value)
    except ExportError as error:
        raise typer.BadParameter(str(error), param_hint="--export") from error
    for remark in done.remarks:
        output.say(remark)
    output.say(f"{len(done.files)} files in {done.folder}; `pdflatex report.tex` there shows all.")


def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...", help="Runs: two or more, compared with the first; or see --against."
        ),
    ],
    against: Annotated[
        list[str] | None,
        typer.Option(
            "--against",
            metavar="RUN",
            help="Compare with these runs together; three a side give verdicts. May be repeated.",
        ),
    ] = None,
    form: Annotated[
        ComparisonFormat | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="html, md, json or text. Default: by the output file.",
        ),
    ] = None,
    file: options.OutputOption = None,
    folder: options.RunsOption = options.RUNS,
    as_json: options.JsonOption = False,
) -> None:
    """Compare runs, with ratios and their intervals."""
    from hawser.cli import chosen
    from hawser.report.compare import compare as side_by_side
    from hawser.report.comparison import render_comparison, renderable_comparison

    sides = [chosen.bundles(some, folder) for some in (runs, against or [])]
    if sum(map(len, sides)) < 2:
        raise typer.BadParameter(f"found {len(sides[0])}, expected at least two", param_hint="RUN")
    try:
        made = side_by_side(*sides)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--against") from error
    given = ComparisonFormat.JSON if as_json else form
    wanted = ComparisonFormat(_form(given, file, ComparisonFormat))
    if wanted is ComparisonFormat.TEXT and file is None:
        output.show(renderable_comparison(made))
        return
    _write(render_comparison(made, wanted.value), file)


def _form(given: StrEnum | None, file: Path | None, known: type[StrEnum]) -> str:
    """The requested format; by default that of the file's name, or text."""
    if given is not None:
        return given.value
    if file is None:
        return "text"
    suffix = file.suffix.removeprefix(".").replace("txt", "text").replace("xml", "junit")
    if suffix not in [form.value for form in known]:
        names = ", ".join(form.value for form in known)
        raise typer.BadParameter(
            f"{file} does not tell the format: give one of {names}", param_hint="--format"
        )
    return suffix


def _write(content: bytes, file: Path | None) -> None:
    if file is not None:
        try:
            file.write_bytes(content)
        except OSError as error:
            raise typer.BadParameter(f"{file}: {error.strerror}", param_hint="-o") from error
    elif b"\0" in content[:64] and sys.stdout.isatty():
        raise typer.BadParameter(
            "cannot write this format to a terminal: name a file", param_hint="-o"
        )
    else:
        sys.stdout.buffer.write(content)


def query(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            help="Folder or id of a run, `latest`, `tag:TAG`, or `all`.",
            autocompletion=options.several_runs,
        ),
    ],
    sql: Annotated[
        str,
        typer.Argument(metavar="SQL", help="SQL query on the tables `samples`, `trials`, `runs`."),
    ],
    folder: options.RunsOption = options.RUNS,
    as_csv: Annotated[
        bool, typer.Option("--csv", metavar="", help="Print comma-separated values.")
    ] = False,
    as_json: options.JsonOption = False,
) -> None:
    """Query samples of one, several or all runs in SQL (DuckDB)."""
    from hawser.cli import chosen, extras

    found = chosen.bundles([run], folder)
    extras.need("query")
    from hawser.store.query import query as ask

    answer = ask(found, sql)
    if as_json:
        output.document(answer.records())
    elif as_csv:
        sys.stdout.write(answer.csv())
    else:
        rows = (["" if value is None else str(value) for value in row] for row in answer.rows)
        output.show(output.table(answer.columns, rows))
