"""`hawser run`: an experiment from the workflow file to the report."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hawser.cli import options

if TYPE_CHECKING:
    from hawser.engine.source import Source
    from hawser.spec import Workflow


_OutOption = Annotated[
    Path, typer.Option("--out", metavar="DIR", help="Folder in which to create the run's folder.")
]
_ResumeOption = Annotated[
    Path | None,
    typer.Option(
        "--resume", metavar="DIR", help="Continue an unfinished run; finished trials are kept."
    ),
]
_AgainstOption = Annotated[
    str | None,
    typer.Option(
        "--against",
        metavar="RUN",
        help="Interleave the variants of an earlier run, and fail where a metric is worse now."
        " HAWSERD_BEFORE names its build of hawserd.",
    ),
]
_PatienceOption = Annotated[
    float,
    typer.Option(
        "--patience",
        metavar="S",
        min=0,
        help="Seconds to wait in all, at most 60 before a trial, while other programs use this"
        " machine. Trials that began or ended so are void. 0: do not look.",
    ),
]
_TagOption = Annotated[
    list[str] | None, typer.Option("--tag", metavar="TAG", help="Tag the run. May be repeated.")
]


def run(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Workflow file.", show_default=False)
    ] = None,
    settings: options.SetOption = None,
    only: options.OnlyOption = None,
    repeat: options.RepeatOption = None,
    duration: options.DurationOption = None,
    rates: options.RatesOption = 1.0,
    out: _OutOption = options.RUNS,
    resume: _ResumeOption = None,
    against: _AgainstOption = None,
    tag: _TagOption = None,
    patience: _PatienceOption = 600.0,
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
    if against and resume:
        raise typer.BadParameter("a resumed run cannot be changed", param_hint="--resume")
    source = _source(file, resume, settings, only, repeat, duration, rates)
    earlier, workflow = _beside(source.workflow, against, out)
    extras.need_for(workflow)
    request = Request(
        workflow=workflow,
        files=source.files,
        runs=out,
        resume=resume,
        command=("hawser", *sys.argv[1:]),
        tags=tuple(tag or ()),
        against=earlier,
        before=_before(resume, earlier),
        patience=patience,
    )
    with observer() as seen:
        bundle = execute(request, driver.choose(workflow), seen, ProcessSignals())
    raise typer.Exit(present.results(bundle, as_json=as_json))


def _source(
    file: Path | None,
    resume: Path | None,
    settings: list[str] | None,
    only: list[str] | None,
    repeat: int | None,
    duration: str | None,
    rates: float,
) -> Source:
    from hawser.cli import chosen
    from hawser.engine.source import Source
    from hawser.store import Bundle

    if file is not None:
        return chosen.source(file, settings, only, repeat, duration, rates)
    if resume is None:
        raise typer.BadParameter("give a workflow FILE, or --resume DIR", param_hint="FILE")
    if settings or only or repeat is not None or duration is not None or rates != 1:
        raise typer.BadParameter("a resumed run cannot be changed", param_hint="--resume")
    return Source(Bundle.open(resume).workflow, {})


def _beside(workflow: Workflow, against: str | None, runs: Path) -> tuple[str | None, Workflow]:
    """Id of the earlier run if there is one, and the workflow with its variants beside."""
    if against is None:
        return None, workflow
    from hawser.cli import chosen, output
    from hawser.engine.against import beside

    earlier = chosen.bundle(against, runs)
    made = beside(workflow, earlier.workflow)
    for variant in made.left_out:
        output.say(f"Only one of both has the variant {variant}: it is left out.")
    return earlier.manifest.run, made.workflow


def _before(resume: Path | None, against: str | None) -> Path | None:
    """The build of `hawserd` for the variants of an earlier run.

    Raises:
        BadParameter: it cannot be executed, or is missing in a resumed run that had one.
    """
    from hawser.cli import output
    from hawser.store import Bundle

    resumed = Bundle.open(resume).manifest if resume is not None else None
    if not against and (resumed is None or resumed.against is None):
        return None
    given = os.environ.get("HAWSERD_BEFORE", "")
    if not given:
        if resumed is not None and "hawserd (before)" in resumed.tools:
            expected = f"expected {resumed.tools['hawserd (before)']}, as the run began"
            raise typer.BadParameter(f"not set, {expected}", param_hint="HAWSERD_BEFORE")
        output.say("Both versions run with this build of hawserd; HAWSERD_BEFORE names another.")
        return None
    if not os.access(given, os.X_OK):
        raise typer.BadParameter(f"found {given!r}, no program", param_hint="HAWSERD_BEFORE")
    return Path(given).absolute()
