"""`hawser runs`: the list of runs, their tags and notes, archives, and the removal of old ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hawser.cli import options, output

if TYPE_CHECKING:
    from hawser.store import RunInfo

app = typer.Typer(
    name="runs",
    help="List runs, tag and annotate them, archive them, and remove old ones.",
    rich_markup_mode="rich",
    invoke_without_command=True,
)

TagOption = Annotated[
    list[str] | None,
    typer.Option("--tag", metavar="TAG", help="Only runs with this tag. May be repeated."),
]


@app.callback()
def runs(
    context: typer.Context,
    tag: TagOption = None,
    folder: options.RunsOption = options.RUNS,
    as_json: options.JsonOption = False,
) -> None:
    """List runs, newest first; or tag, annotate, archive or remove them."""
    if context.invoked_subcommand is not None:
        return
    from hawser.store import runs as listed

    found = [one for one in listed(folder) if set(tag or ()) <= set(one.tags)]
    if as_json:
        output.document([one.model_dump(mode="json") for one in found])
    elif not found:
        output.say(f"No runs in {folder}; `hawser run FILE` starts one.")
    else:
        columns = ("run", "state", "started (UTC)", "trials ", "void ", "tags", "last note")
        output.show(output.table(columns, map(_row, found), whole=("run",)))


def _row(run: RunInfo) -> tuple[str, ...]:
    started = "" if run.started is None else f"{run.started:%Y-%m-%d %H:%M}"
    note = run.notes[-1].text.splitlines()[0] if run.notes else ""
    counts = f"{run.trials}/{run.planned}", str(run.void)
    return run.run, run.state, started, *counts, " ".join(run.tags), note[:60]


@app.command("tag")
def tag(
    run: options.RunArgument,
    tags: Annotated[list[str], typer.Argument(metavar="TAG...", help="Such as `baseline`.")],
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove the tags instead of adding them.")
    ] = False,
    folder: options.RunsOption = options.RUNS,
) -> None:
    """Add tags to a run, or remove them. `tag:TAG` then names all runs that have it."""
    from hawser.cli import chosen
    from hawser.store import notes

    path = chosen.bundle(run, folder).path
    chosen.check_tags(tags)
    found = notes.tag(path, remove=tags) if remove else notes.tag(path, add=tags)
    output.say(f"{path.name}: {' '.join(found.tags) or 'no tags'}")


@app.command("note")
def note(
    run: options.RunArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The remark.")],
    folder: options.RunsOption = options.RUNS,
) -> None:
    """Add a remark to a run, with the time."""
    from datetime import UTC, datetime

    from pydantic import ValidationError

    from hawser.cli import chosen
    from hawser.store import notes

    path = chosen.bundle(run, folder).path
    try:
        notes.note(path, text, datetime.now(UTC).replace(microsecond=0))
    except ValidationError as error:
        problem = error.errors()[0]["msg"]
        raise typer.BadParameter(problem, param_hint="TEXT") from error
    output.say(f"{path.name}: noted")


@app.command("prune")
def prune(
    days: Annotated[
        float | None, typer.Option("--days", metavar="N", min=0, help="Older than N days.")
    ] = None,
    keep: Annotated[
        int | None,
        typer.Option("--keep", metavar="N", min=0, help="Not the newest N of each workflow."),
    ] = None,
    state: Annotated[
        list[str] | None,
        typer.Option(
            "--state", metavar="STATE", help="Only done, failed or incomplete. May be repeated."
        ),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Remove them. Default: show what would be removed.")
    ] = False,
    folder: options.RunsOption = options.RUNS,
    as_json: options.JsonOption = False,
) -> None:
    """Remove runs that meet all criteria. Those with tags or notes are kept, and damaged ones."""
    from datetime import UTC, datetime

    from hawser.store import runs as listed
    from hawser.store.prune import prunable, remove

    known = ("done", "failed", "incomplete")
    if bad := [one for one in state or () if one not in known]:
        expected = ", ".join(known)
        raise typer.BadParameter(
            f"found {bad[0]!r}, expected one of {expected}", param_hint="--state"
        )
    if days is None and keep is None and not state:
        raise typer.BadParameter("give --days, --keep or --state", param_hint="criteria")
    found = prunable(listed(folder), datetime.now(UTC), days=days, keep=keep, states=state or ())
    for one in found if yes else ():
        remove(one.path)
    if as_json:
        output.document({"removed": yes, "runs": [one.run for one in found]})
        return
    for one in found:
        output.say(one.run)
    removed = "removed" if yes else "would be removed; --yes removes them"
    number = "1 run" if len(found) == 1 else f"{len(found)} runs"
    output.say(f"{number} {removed}." if found else "Nothing to remove.")


@app.command("archive")
def archive(
    run: options.RunArgument,
    file: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="File, or a folder for it. Default: RUN.tar.gz."
        ),
    ] = None,
    only_results: Annotated[
        bool,
        typer.Option(
            "--results", help="Without raw output, logs and time series: what tables are made of."
        ),
    ] = False,
    folder: options.RunsOption = options.RUNS,
) -> None:
    """Write a run into one file, with a checksum of everything in it."""
    from hawser.cli import chosen
    from hawser.store.archive import SUFFIX
    from hawser.store.archive import archive as pack

    bundle = chosen.bundle(run, folder)
    target = Path(f"{bundle.manifest.run}{SUFFIX}")
    if file is not None:
        target = file / target if file.is_dir() else file
    typer.echo(f"{pack(bundle, target, only_results)}  {target}")


@app.command("restore")
def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="From `hawser runs archive`.")],
    folder: options.RunsOption = options.RUNS,
) -> None:
    """Unpack an archive into the folder of runs, and check every checksum."""
    from hawser.store.archive import restore as unpack

    output.say(f"{unpack(file, folder).path}: all checksums match")
