"""`hawser reproductions`: published results beside those of runs."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from hawser.cli import options, output

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hawser.report.reproduction.model import Source
    from hawser.store import Bundle


def reproductions(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN...]",
            help="Folders, ids or archives of runs, folders of archives, `tag:TAG`, or `all`."
            " Default: none, all rows `not run`.",
            autocompletion=options.several_runs,
            show_default=False,
        ),
    ] = None,
    file: options.OutputOption = None,
    workflows: Annotated[
        Path,
        typer.Option("--workflows", metavar="DIR", help="Folder of the workflow files."),
    ] = Path("workflows"),
    folder: options.RunsOption = options.RUNS,
) -> None:
    """Write a page of every published table and figure: published, ours, ratio, claims, runs."""
    from hawser.cli import chosen
    from hawser.report.reproduction.gather import chapters, outcomes
    from hawser.report.reproduction.page import page

    sources = _sources(workflows)
    with TemporaryDirectory(prefix="hawser-reproductions-") as unpacked:
        bundles = chosen.with_archives(runs or [], folder, Path(unpacked))
        _say_unused(sources, bundles)
        packed = (one for name in runs or [] for one in chosen.archives(Path(name)))
        where = file.parent if file else Path()
        written = page(chapters(sources, bundles), where, outcomes(sources, bundles), list(packed))
    if file is None:
        sys.stdout.write(written)
        return
    try:
        file.write_text(written, encoding="utf-8")
    except OSError as error:
        raise typer.BadParameter(f"{file}: {error.strerror}", param_hint="-o") from error


def _sources(folder: Path) -> list[Source]:
    from hawser.engine.source import read
    from hawser.report.reproduction.model import Source

    files = sorted(folder.glob("*.yaml"))
    if not files:
        raise typer.BadParameter(f"{folder}: found no workflow file", param_hint="--workflows")
    return [Source(str(file), read(file, []).workflow) for file in files]


def _say_unused(sources: Iterable[Source], bundles: Iterable[Bundle]) -> None:
    files = {source.workflow.name for source in sources}
    for bundle in bundles:
        if bundle.manifest.workflow not in files:
            output.say(
                f"{bundle.manifest.run}: left out, because no file has the workflow"
                f" {bundle.manifest.workflow}"
            )
