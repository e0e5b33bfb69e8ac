"""File access for bundles. Writes are atomic: a crash leaves a file whole or absent."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from hawser.store.errors import BundleError

LARGEST = 256 * 1024 * 1024
"""Largest file that is read into memory, bytes; the longest campaigns stay far below it."""

TEMPORARY = ".tmp-"
"""Name prefix of files and folders that are still being written."""

M = TypeVar("M", bound=BaseModel)


def write(file: Path, content: bytes) -> None:
    """Replace a file atomically: readers see the old or the new content, even after a crash."""
    temporary = file.with_name(TEMPORARY + file.name)
    with temporary.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.rename(file)
    sync(file.parent)


def publish(folder: Path, final: Path) -> None:
    """Rename a complete folder to its final name, once its contents are on disk."""
    for directory, _, names in os.walk(folder):
        for name in names:
            sync(Path(directory) / name)
        sync(Path(directory))
    folder.rename(final)
    sync(final.parent)


def sync(path: Path) -> None:
    """Flush a file or directory to disk. Sockets and links have no content to flush."""
    if path.is_symlink() or not (path.is_file() or path.is_dir()):
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read(file: Path) -> bytes:
    """Read a file of a bundle.

    Raises:
        BundleError: the file is missing, unreadable or larger than `LARGEST`.
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
        BundleError: it cannot be read or does not fit the model; the message names the first
            bad field.
    """
    return parse(file, read(file), model)


def parse(place: Path, text: bytes, model: type[M], where: str = "") -> M:
    """Parse JSON text into a model. Errors name `place` (the file) and `where` (the part of it).

    Raises:
        BundleError: the text does not fit the model; the message names the first bad field.
    """
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise BundleError(place, ": ".join(filter(None, (where, field, first["msg"])))) from error
