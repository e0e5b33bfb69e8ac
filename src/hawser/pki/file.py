"""Files that only their owner may read, written so that a crash leaves the old or the new one."""

from __future__ import annotations

import os
from pathlib import Path


def create_private(path: Path, content: bytes, *, durable: bool = False, mode: int = 0o600) -> None:
    """Write a file that must not exist yet; a durable one outlasts a loss of power.

    Raises:
        FileExistsError: it does.
    """
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        if durable:
            os.fsync(file.fileno())


def replace_private(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Write a file in the place of the one that may be there."""
    beside = path.with_name(f".{path.name}.new")
    beside.unlink(missing_ok=True)
    create_private(beside, content, durable=True, mode=mode)
    beside.replace(path)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make renames in a directory last."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
