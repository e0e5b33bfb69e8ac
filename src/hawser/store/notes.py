"""Tags and notes of a run: what people add to it later, in `notes.json` of its folder."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final

from pydantic import AwareDatetime, Field, StringConstraints

from hawser.spec.model import Model
from hawser.store import files
from hawser.store.errors import BundleError

NOTES: Final = "notes.json"

Tag = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,39}$")]
"""Small letters, digits, dots, dashes and underscores."""


class Note(Model):
    """A remark."""

    at: AwareDatetime
    text: Annotated[str, Field(min_length=1, max_length=4000)]


class Notes(Model):
    """Everything that was added to a run."""

    tags: tuple[Tag, ...] = ()
    """In alphabetical order."""
    notes: tuple[Note, ...] = ()
    """In order of time."""


def read(run: Path) -> Notes:
    """What was added to a run.

    Raises:
        BundleError: the file is damaged.
    """
    file = run / NOTES
    return files.read_model(file, Notes) if file.exists() else Notes()


def tag(run: Path, add: Iterable[str] = (), remove: Iterable[str] = ()) -> Notes:
    """Add tags to a run, and remove others.

    Raises:
        BundleError: the file is damaged.
        ValidationError: a tag is malformed.
    """
    with _locked(run):
        found = read(run)
        tags = (set(found.tags) | set(add)) - set(remove)
        return _write(run, {"tags": tuple(sorted(tags)), "notes": found.notes})


def note(run: Path, text: str, at: datetime) -> Notes:
    """Add a remark to a run.

    Raises:
        BundleError: the file is damaged.
        ValidationError: the text is empty or too long.
    """
    with _locked(run):
        found = read(run)
        added = Note(at=at, text=text.strip())
        return _write(run, {"tags": found.tags, "notes": (*found.notes, added)})


@contextmanager
def _locked(run: Path) -> Iterator[None]:
    """Let one process at a time change the file; it is replaced, so the folder is locked."""
    try:
        descriptor = os.open(run, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise BundleError(run, error.strerror or str(error)) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _write(run: Path, content: dict[str, object]) -> Notes:
    made = Notes.model_validate(content)
    files.write(run / NOTES, made.model_dump_json(indent=1).encode())
    return made
