"""What differs between two documents, and documents changed by a patch. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hawser.spec.model import Model

Json = Any


class Change(Model):
    """One value that differs."""

    path: str
    """Where, as a JSON pointer (RFC 6901)."""
    before: Json | None = None
    """None where there was nothing."""
    after: Json | None = None
    """None where there is nothing."""


def changes(old: Json, new: Json) -> tuple[Change, ...]:
    """Give what differs, in the order of the documents. A list differs as a whole."""
    return tuple(_changes((), old, new))


def _changes(path: tuple[str, ...], old: Json, new: Json) -> Iterator[Change]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in (*old, *(key for key in new if key not in old)):
            yield from _changes((*path, key), old.get(key), new.get(key))
    elif old != new or type(old) is not type(new):
        yield Change(path=_pointer(path), before=old, after=new)


def _pointer(path: tuple[str, ...]) -> str:
    return "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in path)


def patched(document: Json, patch: Json) -> Json:
    """Apply a JSON merge patch (RFC 7396): null removes, mappings merge, all else replaces."""
    if not isinstance(patch, dict):
        return patch
    base = document if isinstance(document, dict) else {}
    merged = {key: value for key, value in base.items() if patch.get(key, ...) is not None}
    for key, value in patch.items():
        if value is not None:
            merged[key] = patched(base.get(key), value)
    return merged
