"""Tags and notes of a run: what people add to it later, in `notes.json` of its folder."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final

from pydantic import AwareDatetime, Field, StringConstraints

from hawser.spec.model import Model
from hawser.store import files

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
    found = read(run)
    tags = (set(found.tags) | set(add)) - set(remove)
    return _write(run, {"tags": tuple(sorted(tags)), "notes": found.notes})


def note(run: Path, text: str, at: datetime) -> Notes:
    """Add a remark to a run.

    Raises:
        BundleError: the file is damaged.
        ValidationError: the text is empty or too long.
    """
    found = read(run)
    added = Note(at=at, text=text.strip())
    return _write(run, {"tags": found.tags, "notes": (*found.notes, added)})


def _write(run: Path, content: dict[str, object]) -> Notes:
    made = Notes.model_validate(content)
    files.write(run / NOTES, made.model_dump_json(indent=1).encode())
    return made
