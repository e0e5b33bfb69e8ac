"""The directory of a lab: what is known about it, and who may change it now.

    lab.json            the plan, and the process that made the lab
    daemons/NAME.json   a running daemon: pid, start, restarts
    config/NAME.json    its configuration
    logs/NAME.log       its output
    pki/                certificates
    *.sock              control sockets

The directory is made before anything else of the lab and removed after everything else, so
whatever exists can be found. Its lock (flock) is held while the lab is being made or removed and
ends with its holder.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import ValidationError

from hawser.driver.base import DriverError
from hawser.node.process import started
from hawser.overlay.config.base import Configuration
from hawser.overlay.lab.plan import NetworkPlan, pid_file
from hawser.spec.model import Model

_FOLDERS = ("config", "daemons", "logs", "pki")
_DENIED = "lab {}: belongs to another user; use sudo"
_LOCK_POLL = 0.02
"""Seconds between two tries to get a lock that another process holds."""


class LabGoneError(DriverError):
    """There is no lab of this name, or it was removed."""


class ProcessRecord(Model):
    """A process, identified by id and start time."""

    pid: int
    started: int
    """Clock ticks after boot."""

    @classmethod
    def of(cls, pid: int) -> ProcessRecord | None:
        """Describe a living process."""
        ticks = started(pid)
        return None if ticks is None else cls(pid=pid, started=ticks)

    def alive(self) -> bool:
        """Whether it still runs."""
        return started(self.pid) == self.started


class DaemonRecord(Model):
    """A daemon that was started."""

    process: ProcessRecord
    restarts: int = 0


class LabRecord(Model):
    """A lab, as `attach` finds it."""

    name: str
    maker: ProcessRecord
    """The process that deployed it, and keeps its daemons running while it lives."""
    created: float
    """Seconds since 1970-01-01 UTC."""
    complete: bool = False
    """Whether everything was made; else it is being made, or its maker was killed."""
    plan: NetworkPlan


def create(directory: Path) -> None:
    """Claim a lab's name by making its directory.

    Raises:
        DriverError: the lab exists.
    """
    directory.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    try:
        directory.mkdir(mode=0o700)
    except FileExistsError:
        raise DriverError(_exists(directory)) from None
    try:
        for folder in _FOLDERS:
            (directory / folder).mkdir(mode=0o700)
    except BaseException:  # also a signal's: nobody else would remove it
        remove(directory)
        raise


def _exists(directory: Path) -> str:
    try:
        maker = read(directory).maker
    except DriverError:
        return f"lab {directory.name} exists, half made: destroy it first"
    doing = f"made by process {maker.pid}" if maker.alive() else "left by a process that is gone"
    return f"lab {directory.name} exists, {doing}: destroy it first"


@contextmanager
def locked(directory: Path, wait: float) -> Iterator[None]:
    """Hold the lab's lock; wait for it at most `wait` seconds.

    Raises:
        LabGoneError: there is no such lab, or it was removed while waiting.
        DriverError: another process holds the lock.
    """
    try:
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise LabGoneError(f"lab {directory.name}: there is none of that name") from None
    except PermissionError:
        raise DriverError(_DENIED.format(directory.name)) from None
    try:
        _acquire(handle, directory, time.monotonic() + wait)
        yield
    finally:
        os.close(handle)


def _acquire(handle: int, directory: Path, deadline: float) -> None:
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise DriverError(
                    f"lab {directory.name}: another process is making or removing it"
                ) from None
            time.sleep(_LOCK_POLL)
    if not directory.exists() or not os.path.samestat(os.fstat(handle), directory.stat()):
        raise LabGoneError(f"lab {directory.name}: was removed meanwhile")


def read(directory: Path) -> LabRecord:
    """What is known of a lab.

    Raises:
        LabGoneError: there is none of that name.
        DriverError: there are only remains.
    """
    try:
        return LabRecord.model_validate_json((directory / "lab.json").read_bytes())
    except PermissionError:
        raise DriverError(_DENIED.format(directory.name)) from None
    except (OSError, ValidationError) as error:
        if not directory.exists():
            raise LabGoneError(f"lab {directory.name}: there is none of that name") from None
        raise DriverError(f"lab {directory.name}: only remains are left: destroy it") from error


def write(directory: Path, record: LabRecord) -> None:
    """Save what is known of a lab; a crash leaves the old or the new, never a part."""
    _replace(directory / "lab.json", record.model_dump_json())


def read_daemon(directory: Path, name: str) -> DaemonRecord | None:
    """The last start of a daemon."""
    try:
        return DaemonRecord.model_validate_json(
            (directory / "daemons" / f"{name}.json").read_bytes()
        )
    except (OSError, ValidationError):
        return None


def write_daemon(directory: Path, name: str, record: DaemonRecord) -> None:
    """Save the start of a daemon."""
    _replace(directory / "daemons" / f"{name}.json", record.model_dump_json())
    _replace(directory / pid_file(name), f"{record.process.pid}\n")


def write_config(directory: Path, name: str, config: Configuration) -> Path:
    """Save a daemon's configuration and say where."""
    path = directory / "config" / f"{name}.json"
    _replace(path, config.model_dump_json(indent=2))
    return path


def write_file(path: Path, content: Model | str) -> None:
    """Save a file that a daemon reads: a text as it is, anything else as JSON."""
    _replace(path, content if isinstance(content, str) else content.model_dump_json())


def recorded_processes(directory: Path) -> tuple[ProcessRecord, ...]:
    """Processes that the lab started and wrote down."""
    records = (read_daemon(directory, path.stem) for path in (directory / "daemons").glob("*.json"))
    return tuple(record.process for record in records if record is not None)


def remove(directory: Path) -> None:
    """Delete the directory, and with it the lab's name."""
    shutil.rmtree(directory, ignore_errors=True)
    if directory.exists():
        raise DriverError(f"lab {directory.name}: {directory} cannot be deleted")


def _replace(path: Path, text: str) -> None:
    temporary = path.with_suffix(".tmp")
    temporary.touch(mode=0o600)
    temporary.write_text(text)
    temporary.replace(path)
