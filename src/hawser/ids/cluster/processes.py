"""Processes that go on after the command that started them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from hawser.store import files

_PATIENCE_S: Final = 20.0
"""For SIGTERM to take effect."""


@dataclass(frozen=True)
class Started:
    """A process: its number is used again, number and start time together are not."""

    pid: int
    created: float

    def process(self) -> psutil.Process | None:
        """Give the process; None if it has ended."""
        try:
            found = psutil.Process(self.pid)
            if found.create_time() == self.created and found.status() != psutil.STATUS_ZOMBIE:
                return found
        except psutil.Error:
            pass
        return None


def start(
    command: Sequence[str], record: Path, log: Path, environment: Mapping[str, str]
) -> Started:
    """Start a process in a session of its own, and write down which it is."""
    pid = os.posix_spawnp(  # unlike Popen it leaves no object behind that waits for the process
        command[0],
        list(command),
        {**os.environ, **environment},
        file_actions=(
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ),
        setsid=True,
    )
    made = Started(pid, psutil.Process(pid).create_time())
    files.write(record, json.dumps({"pid": made.pid, "created": made.created}).encode())
    return made


def read(record: Path) -> Started | None:
    """Read which process was started; None if none was."""
    try:
        found = json.loads(record.read_text())
        return Started(int(found["pid"]), float(found["created"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def running(record: Path) -> psutil.Process | None:
    """Give the process that was started and still runs."""
    found = read(record)
    return found.process() if found else None


def stop(record: Path, patience_s: float = _PATIENCE_S) -> bool:
    """End a process and its children: SIGTERM, then SIGKILL. Says whether it ran."""
    process = running(record)
    if process is None:
        record.unlink(missing_ok=True)
        return False
    family = [process, *process.children(recursive=True)]
    process.terminate()
    _, left = psutil.wait_procs([process], patience_s)
    for each in [*left, *family]:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.send_signal(signal.SIGKILL)
    psutil.wait_procs(family, patience_s)
    _reap(process.pid)
    record.unlink(missing_ok=True)
    return True


def _reap(pid: int) -> None:
    """A child of this very process would stay as a zombie."""
    with contextlib.suppress(ChildProcessError):
        for _ in range(10):
            if os.waitpid(pid, os.WNOHANG)[0]:
                return
            time.sleep(0.05)
