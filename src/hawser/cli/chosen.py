"""Arguments of the command line resolved to workflows and runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from hawser.cli import output
from hawser.engine import select
from hawser.engine.errors import InputError
from hawser.engine.rates import multiplied
from hawser.engine.source import Source, read
from hawser.spec.units import Duration
from hawser.store import Bundle, runs
from hawser.store.archive import SUFFIX, restore
from hawser.store.notes import Tag


def source(
    file: Path,
    settings: list[str] | None,
    only: list[str] | None = None,
    repeat: int | None = None,
    duration: str | None = None,
    rates: float = 1.0,
) -> Source:
    """Read a workflow file, warn about old names, select variants, and change what options say.

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
    workflow = multiplied(workflow, rates)
    return replace(found, workflow=workflow)


def _duration(text: str) -> Duration:
    try:
        value = Duration.parse(f"{text} s" if text.strip().replace(".", "").isdigit() else text)
    except ValueError as error:
        raise InputError([f"--duration: {error}"]) from error
    if value < 1 or not value.is_integer():
        raise InputError([f"--duration: found {text!r}, expected whole seconds, at least 1"])
    return value


ALL, TAG = "all", "tag:"
"""Arguments that name several runs: all of a folder, those with a tag."""


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


def bundles(names: Iterable[str], folder: Path) -> list[Bundle]:
    """The runs that arguments name, each once: a run, `tag:NAME`, or `all`.

    Raises:
        InputError: there is none.
        StoreError: one that is named is damaged; damaged ones of `all` and tags are left out.
    """
    found: dict[Path, Bundle] = {}
    for name in names:
        some = _several(name, folder) if name == ALL or name.startswith(TAG) else None
        for one in [bundle(name, folder)] if some is None else some:
            found.setdefault(one.path.resolve(), one)
    return list(found.values())


def with_archives(names: Iterable[str], folder: Path, unpacked: Path) -> list[Bundle]:
    """The runs that arguments name, each once: as `bundles`, or an archive, or a folder of them.

    Args:
        names: the arguments.
        folder: of all runs.
        unpacked: folder for the runs of archives.

    Raises:
        InputError: there is none.
        StoreError: one that is named is damaged.
    """
    found: dict[str, Bundle] = {}
    for name in dict.fromkeys(names):
        packed = archives(Path(name))
        some = [restore(file, unpacked) for file in packed] or bundles([name], folder)
        for one in some:
            found.setdefault(one.manifest.run, one)
    return list(found.values())


def archives(path: Path) -> list[Path]:
    """The archive that a path is, or those in a folder; none where it is neither."""
    files = sorted(path.glob(f"*{SUFFIX}")) if path.is_dir() else [path]
    return [file for file in files if file.is_file()]


def _several(name: str, folder: Path) -> list[Bundle]:
    listed = [one for one in runs(folder) if one.state != "damaged"]
    if name != ALL:
        listed = [one for one in listed if name.removeprefix(TAG) in one.tags]
    if not listed:
        raise InputError([f"found no run in {folder} for {name!r}"])
    return [Bundle.open(one.path) for one in listed]


def check_tags(tags: Iterable[str]) -> None:
    """Refuse what is no tag.

    Raises:
        InputError: one is none.
    """
    check = TypeAdapter(Tag)
    for tag in tags:
        try:
            check.validate_python(tag)
        except ValidationError as error:
            expected = "small letters, digits, dots, dashes and underscores, at most 40"
            raise InputError([f"found tag {tag!r}, expected {expected}"]) from error
