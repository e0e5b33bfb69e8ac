"""`hawser run`: an experiment from the workflow file to the report."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hawser.cli import options

if TYPE_CHECKING:
    from hawser.engine.source import Source


def run(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Workflow file.", show_default=False)
    ] = None,
    settings: options.SetOption = None,
    only: options.OnlyOption = None,
    repeat: options.RepeatOption = None,
    duration: options.DurationOption = None,
    out: Annotated[
        Path,
        typer.Option("--out", metavar="DIR", help="Folder in which to create the run's folder."),
    ] = options.RUNS,
    resume: Annotated[
        Path | None,
        typer.Option(
            "--resume",
            metavar="DIR",
            help="Continue an unfinished run; finished trials are kept.",
        ),
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option("--tag", metavar="TAG", help="Tag the run. May be repeated."),
    ] = None,
    as_json: options.JsonOption = False,
) -> None:
    """Run an experiment: deploy, measure, report, tear down.

    Exit code 1 if the run or an assertion failed, or if it was interrupted (it can be resumed).
    """
    from hawser import driver
    from hawser.cli import chosen, extras, present
    from hawser.cli.progress import observer
    from hawser.engine.execute import Request, execute
    from hawser.engine.signals import ProcessSignals

    chosen.check_tags(tag or ())
    source = _source(file, resume, settings, only, repeat, duration)
    extras.need_for(source.workflow)
    request = Request(
        workflow=source.workflow,
        files=source.files,
        runs=out,
        resume=resume,
        command=("hawser", *sys.argv[1:]),
        tags=tuple(tag or ()),
    )
    with observer() as seen:
        bundle = execute(request, driver.choose(source.workflow), seen, ProcessSignals())
    raise typer.Exit(present.results(bundle, as_json=as_json))


def _source(
    file: Path | None,
    resume: Path | None,
    settings: list[str] | None,
    only: list[str] | None,
    repeat: int | None,
    duration: str | None,
) -> Source:
    from hawser.cli import chosen
    from hawser.engine.source import Source
    from hawser.store import Bundle

    if file is not None:
        return chosen.source(file, settings, only, repeat, duration)
    if resume is None:
        raise typer.BadParameter("give a workflow FILE, or --resume DIR", param_hint="FILE")
    if settings or only or repeat is not None or duration is not None:
        raise typer.BadParameter("a resumed run cannot be changed", param_hint="--resume")
    return Source(Bundle.open(resume).workflow, {})
