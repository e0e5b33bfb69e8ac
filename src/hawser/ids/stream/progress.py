"""Which records of a log are new, and how many are missing. Pure.

A run of a sensor numbers its records from 1. A number that is not above the last one is a copy, and
numbers that were left out are records that were lost before they were read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from hawser.ids.features import NAMES
from hawser.ids.stream.log import Position

SCHEMA: Final = 1
_ID: Final = re.compile(r"([0-9a-f]{1,16})-\d{1,20}")
_LARGEST: Final = (1 << 63) - 1


@dataclass(frozen=True)
class Progress:
    """How far a log was read."""

    position: Position = field(default_factory=Position)
    run: str = ""
    """The run of the last record."""
    seq: int = 0
    """Its number."""

    def dump(self) -> bytes:
        """Write it as a message."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def load(cls, message: bytes) -> Progress:
        """Read it from a message.

        Raises:
            ValueError: it is none.
        """
        found = json.loads(message)
        try:
            position = Position(int(found["position"]["file"]), int(found["position"]["offset"]))
            return cls(position, str(found["run"]), int(found["seq"]))
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a place in a log: {message[:80]!r}") from error


@dataclass(frozen=True)
class Record:
    """A record to be sent."""

    flow: str
    """The flow's id."""
    value: bytes
    """The line, with the sensor's name in it."""


@dataclass(frozen=True)
class News:
    """The new records of some lines."""

    records: tuple[Record, ...]
    progress: Progress
    lost: int
    """Records whose numbers were left out."""
    copies: int
    """Records that were had before."""
    malformed: int
    """Lines that are no records of this schema."""


def news(progress: Progress, lines: Iterable[bytes], position: Position, sensor: str) -> News:
    """Tell which of the lines until `position` are new records."""
    records: list[Record] = []
    lost = copies = malformed = 0
    run, seq = progress.run, progress.seq
    for line in lines:
        found = _parsed(line)
        if found is None:
            malformed += 1
            continue
        its_run, number = found["id"].partition("-")[0], found["seq"]
        if its_run != run:
            run, seq = its_run, 0
        if number <= seq:
            copies += 1
            continue
        lost += number - seq - 1
        seq = number
        value = json.dumps(found | {"sensor": sensor}, separators=(",", ":")).encode()
        records.append(Record(found["id"], value))
    done = replace(progress, position=position, run=run, seq=seq)
    return News(tuple(records), done, lost, copies, malformed)


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        return None
    name, number, values = found.get("id"), found.get("seq"), found.get("features")
    if not isinstance(name, str) or not _ID.fullmatch(name):
        return None
    if type(number) is not int or not 1 <= number <= _LARGEST:
        return None
    if not isinstance(values, list) or len(values) != len(NAMES):
        return None
    return found
