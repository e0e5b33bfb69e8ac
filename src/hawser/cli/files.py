"""Files that arguments and options name."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from hawser.engine.errors import InputError


def content(path: Path) -> bytes:
    """Read a file.

    Raises:
        InputError: it cannot be read.
    """
    with _named(path):
        return path.read_bytes()


def lines(path: Path) -> Iterator[bytes]:
    """Read a file line by line.

    Raises:
        InputError: it cannot be read.
    """
    with _named(path), path.open("rb") as opened:
        yield from opened


def secret(path: Path) -> str:
    """Read a file with a password, without the line feed at its end.

    Raises:
        InputError: it cannot be read, or is no text.
    """
    try:
        return content(path).decode().strip()
    except UnicodeDecodeError as error:
        raise InputError([f"{path}: expected text in UTF-8"]) from error


@contextlib.contextmanager
def writing(path: Path) -> Iterator[TextIO]:
    """Write a file, which appears when all of it is there.

    Raises:
        InputError: it cannot be written.
    """
    beside = path.with_name(f".{path.name}.new")
    try:
        with _named(path), beside.open("w", encoding="utf-8") as opened:
            yield opened
        with _named(path):
            beside.replace(path)
    finally:
        with contextlib.suppress(OSError):
            beside.unlink()


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError([f"{path}: {error.strerror or error}"]) from error
