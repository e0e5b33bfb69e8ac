"""Errors in a workflow: all of them at once, each with its place."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

SHOWN = 50
"""Errors written out; the others are counted."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where something is written. Lines and columns count from 1; line 0 means not in a file."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


@dataclass(frozen=True, slots=True)
class SpecError:
    """One mistake."""

    file: str
    """The file as named by the caller or by `extends`, or the text of an override."""
    line: int
    column: int
    field: str
    """Dotted path, such as `topology.links.lan1.rate`; empty for the file as a whole."""
    message: str
    """What was found and what was expected."""

    def __str__(self) -> str:
        place = Place(self.file, self.line, self.column)
        return ": ".join(part for part in (str(place), self.field, self.message) if part)


class SpecErrors(Exception):  # noqa: N818 (it carries many of them)
    """A workflow has errors."""

    def __init__(self, errors: Iterable[SpecError]) -> None:
        self.errors = tuple(errors)
        super().__init__(self.errors)

    def __str__(self) -> str:
        lines = [str(error) for error in self.errors[:SHOWN]]
        if len(self.errors) > SHOWN:
            lines.append(f"and {len(self.errors) - SHOWN} more errors")
        return "\n".join(lines)


class Problems:
    """Collects errors, each once, so that all are reported together."""

    def __init__(self) -> None:
        self._errors: dict[SpecError, None] = {}
        self._settled: set[Place] = set()

    def add(self, place: Place, field: str, message: str, *, settles: bool = False) -> None:
        """Add an error; one that is already known (from another variant) is ignored.

        Args:
            place: where it is written.
            field: dotted path.
            message: what was found and what was expected.
            settles: whether further errors at this place are only consequences of this one.
        """
        if place in self._settled:
            return
        if settles:
            self._settled.add(place)
        self._errors[SpecError(place.file, place.line, place.column, field, message)] = None

    def __len__(self) -> int:
        return len(self._errors)

    def __iter__(self) -> Iterator[SpecError]:
        return iter(self._errors)

    def failure(self) -> SpecErrors:
        """Give the exception with all errors, in the order of the file."""
        return SpecErrors(sorted(self._errors, key=lambda e: (e.file, e.line, e.column)))


def found(value: object) -> str:
    """Quote what was found, shortened if it is long."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:56]}...{text[-1]}"


def choices(known: Iterable[str], wrong: object = None) -> str:
    """Say which names are known, or suggest the one most like the wrong one."""
    names = list(known)
    near = difflib.get_close_matches(str(wrong)[:100], names, 1) if wrong is not None else []
    if near:
        return f"did you mean {near[0]!r}?"
    if not names:
        return "there is none"
    listed = ", ".join(names[:12])
    return f"expected {listed}" if len(names) <= 12 else f"expected {listed}, ..."
