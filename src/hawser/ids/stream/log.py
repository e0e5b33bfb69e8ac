"""The record log of a sensor (docs/guide/flows.md): files that grow, old ones are removed."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hawser.ids.errors import IdsError

_NAME: Final = re.compile(r"records-(\d{10})\.jsonl")
CHUNK: Final = 1 << 20
"""Bytes that are read at once; a record has less than 2000."""


@dataclass(frozen=True)
class Position:
    """A place in the log, between two lines."""

    file: int = 0
    """Number of the file; the log may begin at a later one."""
    offset: int = 0
    """Bytes before the place."""


@dataclass(frozen=True)
class Chunk:
    """Complete lines, and the place behind them."""

    lines: Sequence[bytes]
    position: Position


def read(folder: Path, position: Position, size: int = CHUNK) -> Chunk:
    """Read the lines behind a place: those of one file, `size` bytes at most.

    Without new lines the place may still be another one: the next file's beginning.

    Raises:
        IdsError: the folder cannot be read.
    """
    try:
        numbers = _numbers(folder)
        if position.file not in numbers:
            return Chunk((), _elsewhere(numbers, position))
        with (folder / f"records-{position.file:010}.jsonl").open("rb") as opened:
            if os.fstat(opened.fileno()).st_size < position.offset:
                return Chunk((), Position(position.file))  # another file of this name
            opened.seek(position.offset)
            found = opened.read(size)
    except FileNotFoundError as error:
        if folder.is_dir():  # removed between looking and reading
            return Chunk((), position)
        raise IdsError(folder, "no such folder") from error
    except OSError as error:
        raise IdsError(folder, error.strerror or str(error)) from error
    end = found.rfind(b"\n") + 1
    if not end and len(found) == size:
        end = size  # no record is so long: its parts will be refused as lines
    if end:
        lines = found[:end].removesuffix(b"\n").split(b"\n")
        return Chunk(lines, Position(position.file, position.offset + end))
    # Files were listed before this one was read, so nothing is added to one that has a successor.
    later = [number for number in numbers if number > position.file]
    return Chunk((), Position(min(later)) if later else position)


def _elsewhere(numbers: set[int], position: Position) -> Position:
    """Where to go on if the file was removed, or nothing was read yet.

    A log in which all files are older was emptied and begins anew; what was read before is known
    by its run.
    """
    if not numbers:
        return position
    later = [number for number in numbers if number > position.file]
    return Position(min(later or numbers))


def behind(folder: Path, position: Position) -> int:
    """Bytes of the log that are behind a place: what waits to be read."""
    total = 0
    for path in folder.glob("records-*.jsonl"):
        found = _NAME.fullmatch(path.name)
        if found and int(found.group(1)) >= position.file:
            try:
                total += path.stat().st_size
            except OSError:  # removed meanwhile
                continue
            total -= position.offset if int(found.group(1)) == position.file else 0
    return max(0, total)


def _numbers(folder: Path) -> set[int]:
    if not folder.is_dir():
        raise FileNotFoundError(folder)
    found = (_NAME.fullmatch(path.name) for path in folder.iterdir())
    return {int(each.group(1)) for each in found if each}
