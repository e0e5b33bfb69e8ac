"""Arguments of the command line resolved to workflows and runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hawser.cli import output
from hawser.engine import select
from hawser.engine.errors import InputError
from hawser.engine.source import Source, read
from hawser.spec.units import Duration
from hawser.store import Bundle, runs


def source(
    file: Path,
    settings: list[str] | None,
    only: list[str] | None = None,
    repeat: int | None = None,
    duration: str | None = None,
) -> Source:
    """Read a workflow file, warn about old names, and select variants.

    Raises:
        SpecErrors: the file or an override is wrong.
        InputError: an option is.
    """
    overrides = [*(settings or []), *([f"repeat={repeat}"] if repeat is not None else [])]
    found = read(file, overrides)
    for warning in found.warnings:
        output.say(str(warning))
    workflow = found.workflow
    if only:
        workflow = select.only(workflow, only)
    if duration is not None:
        workflow = select.lasting(workflow, _duration(duration))
    return replace(found, workflow=workflow)


def _duration(text: str) -> Duration:
    try:
        value = Duration.parse(f"{text} s" if text.strip().replace(".", "").isdigit() else text)
    except ValueError as error:
        raise InputError([f"--duration: {error}"]) from error
    if value < 1 or not value.is_integer():
        raise InputError([f"--duration: found {text!r}, expected whole seconds, at least 1"])
    return value


def bundle(run: str, folder: Path) -> Bundle:
    """The run that an argument names.

    Raises:
        InputError: there is none.
        StoreError: it is damaged.
    """
    if run == "latest":
        listed = runs(folder)
        if not listed:
            raise InputError([f"latest: there is no run in {folder}"])
        return Bundle.open(listed[0].path)
    for place in (Path(run), folder / run):
        if place.is_dir():
            return Bundle.open(place)
    raise InputError([f"found run {run!r}, expected a run's folder, an id in {folder}, or latest"])
