"""`hawser report`, `compare`, `query` and `runs`: what runs gave."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hawser.cli import options, output

if TYPE_CHECKING:
    from hawser.store import RunInfo


def query(
    run: options.RunArgument,
    sql: Annotated[
        str,
        typer.Argument(metavar="SQL", help="A statement over the tables `samples` and `trials`."),
    ],
    folder: options.RunsOption = options.RUNS,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print comma-separated values.")] = False,
    as_json: options.JsonOption = False,
) -> None:
    """Ask a run's samples in SQL (DuckDB)."""
    from hawser.cli import chosen
    from hawser.store import query as ask

    answer = ask(chosen.bundle(run, folder), sql)
    if as_json:
        output.document(answer.records())
    elif as_csv:
        output.text(answer.csv())
    else:
        rows = (["" if value is None else str(value) for value in row] for row in answer.rows)
        output.console().print(output.table(answer.columns, rows))


def runs(folder: options.RunsOption = options.RUNS, as_json: options.JsonOption = False) -> None:
    """List the runs, the newest first."""
    from hawser.store import runs as listed

    found = listed(folder)
    if as_json:
        output.document([one.model_dump(mode="json") for one in found])
    elif not found:
        output.say(f"No runs in {folder}; `hawser run FILE` makes one.")
    else:
        columns = ("run", "state", "started", "trials ", "void ", "valid")
        output.console().print(output.table(columns, map(_row, found)))


def _row(run: RunInfo) -> tuple[str, ...]:
    started = "" if run.started is None else f"{run.started:%Y-%m-%d %H:%M} UTC"
    counts = f"{run.trials}/{run.planned}", str(run.void)
    return run.run, run.state, started, *counts, "yes" if run.valid else "no"


def report(run: options.RunArgument) -> None:
    """r."""


def compare(run: options.RunArgument) -> None:
    """r."""
