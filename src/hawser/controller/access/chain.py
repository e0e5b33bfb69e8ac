"""The hash chain of the audit log, which anybody can check who has the log's text.

The hash of an entry is the SHA-256 of its JSON (sorted keys, no white space, UTF-8) without `hash`
itself. It contains `previous`, the hash of the entry before: no entry can be changed, removed or
inserted without all later hashes changing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

ORIGIN: Final = "0" * 64
"""`previous` of the first entry."""

_HASHED: Final = (
    "number", "time", "actor", "address", "action", "target", "before", "after", "previous",
)  # fmt: skip


@dataclass(frozen=True)
class Checked:
    """What a log was found to be."""

    entries: int
    """Entries up to the first that is broken."""
    hash: str
    """Of the last of them."""
    broken: int | None
    """Number of the first entry that is not as it was written; None if there is none."""
    anchored: bool
    """Whether one of them has the hash that was asked for."""


def hash_of(entry: Mapping[str, Any]) -> str:
    """Give the hash of an entry.

    Raises:
        KeyError: a field is missing.
        ValueError: a value is not JSON.
    """
    body = {name: entry[name] for name in _HASHED}
    text = json.dumps(
        body, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False
    )
    return sha256(text.encode()).hexdigest()


def check(entries: Iterable[Mapping[str, Any]], anchor: str | None = None) -> Checked:
    """Check a whole log in order.

    Args:
        entries: from the first on.
        anchor: a hash that was noted earlier: its entry must still be there.
    """
    count, previous, anchored = 0, ORIGIN, anchor in (None, ORIGIN)
    for entry in entries:
        if not _follows(entry, count + 1, previous):
            return Checked(count, previous, count + 1, anchored)
        count, previous = count + 1, entry["hash"]
        anchored = anchored or previous == anchor
    return Checked(count, previous, None, anchored)


def _follows(entry: Mapping[str, Any], number: int, previous: str) -> bool:
    try:
        found = (entry["number"], entry["previous"], entry["hash"])
        return found == (number, previous, hash_of(entry))
    except (KeyError, TypeError, ValueError):
        return False
