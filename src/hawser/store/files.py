"""Files that are either whole or absent, whatever happens while they are written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from hawser.store.errors import BundleError

LARGEST = 256 * 1024 * 1024
"""Bytes of the largest file that is read whole; the longest campaigns stay far below it."""

TEMPORARY = ".tmp-"
"""Start of the name of what is not complete yet."""

M = TypeVar("M", bound=BaseModel)


def write(file: Path, content: bytes) -> None:
    """Replace a file at once: a reader, or a crash, meets the old content or the new."""
    temporary = file.with_name(TEMPORARY + file.name)
    with temporary.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.rename(file)
    sync(file.parent)


def publish(folder: Path, final: Path) -> None:
    """Give a complete folder its final name, after all that it holds is on the disk."""
    for directory, _, names in os.walk(folder):
        for name in names:
            sync(Path(directory) / name)
        sync(Path(directory))
    folder.rename(final)
    sync(final.parent)


def sync(path: Path) -> None:
    """Wait until a file or directory is on the disk; sockets and links have nothing to wait for."""
    if path.is_symlink() or not (path.is_file() or path.is_dir()):
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read(file: Path) -> bytes:
    """Content of a file of a bundle.

    Raises:
        BundleError: it is missing, unreadable or larger than `LARGEST`.
    """
    try:
        if file.stat().st_size > LARGEST:
            raise BundleError(file, f"larger than {LARGEST // 2**20} MiB")
        return file.read_bytes()
    except OSError as error:
        raise BundleError(file, error.strerror or str(error)) from error


def read_model(file: Path, model: type[M]) -> M:
    """Read a JSON file into a model.

    Raises:
        BundleError: it cannot be read or does not have the form; names the first field at fault.
    """
    return parse(file, read(file), model)


def parse(place: Path, text: bytes, model: type[M], where: str = "") -> M:
    """Read JSON text that stands at `place`, in the part called `where`.

    Raises:
        BundleError: it does not have the form; names the first field at fault.
    """
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise BundleError(place, ": ".join(filter(None, (where, field, first["msg"])))) from error
