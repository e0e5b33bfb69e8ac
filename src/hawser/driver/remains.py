"""Finding and removing all of a lab, from what the kernel and the lab's directory say.

Nothing is taken from the maker's memory: a lab whose maker was killed is removed the same way.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from hawser.driver import names, state
from hawser.driver.base import DriverError
from hawser.node.netns import cgroup, namespace

_GRACE = 1.0
"""Seconds between SIGTERM and SIGKILL."""
_GIVE_UP = 5.0
"""Seconds after SIGKILL in which a process must be gone."""
_POLL = 0.005

_Identity = tuple[int, int]


def labs(root: Path) -> tuple[str, ...]:
    """Names of all labs of which anything exists."""
    directories = [path.name for path in root.iterdir()] if root.is_dir() else []
    made = (*namespace.names("hawser."), *cgroup.names("hawser."))
    owners = [names.lab_of(name) for name in made]
    return tuple(sorted({lab for lab in (*directories, *owners) if lab and names.valid(lab)}))


def destroy(directory: Path, wait: float) -> None:
    """Remove everything of the lab with this directory; nothing to do is fine.

    Raises:
        DriverError: another process is making it for longer than `wait` seconds, or a process
            does not end.
    """
    if not directory.exists():
        _clear(directory)
        return
    with contextlib.suppress(state.LabGoneError), state.locked(directory, wait):
        _clear(directory)


def _clear(directory: Path) -> None:
    """Remove everything of a lab whose lock the caller holds.

    Processes go first, while their namespaces still have names: when this is interrupted, the
    next attempt finds them. The directory goes last.
    """
    found = namespace.names(names.prefix(directory.name))
    with _identities(found) as spaces:
        belongs = _membership(directory.name, spaces, state.recorded_processes(directory))
        _end(belongs)
        for name in found:
            namespace.remove(name)
        _end(belongs)  # what entered between the last look and the removal of the name
    for name in cgroup.names(names.prefix(directory.name)):
        cgroup.remove(name)
    if directory.exists():
        state.remove(directory)


@contextlib.contextmanager
def _identities(found: tuple[str, ...]) -> Iterator[frozenset[_Identity]]:
    with contextlib.ExitStack() as stack:
        spaces = [stack.enter_context(namespace.identity(name)) for name in found]
        yield frozenset(space for space in spaces if space is not None)


def _membership(
    lab: str, spaces: frozenset[_Identity], records: tuple[state.ProcessRecord, ...]
) -> Callable[[int], bool]:
    group = f"/{names.prefix(lab)}"
    by_pid = {record.pid: record for record in records}

    def belongs(pid: int) -> bool:
        if pid == os.getpid():
            return False
        recorded = pid in by_pid and by_pid[pid].alive()
        return recorded or _space(pid) in spaces or group in _groups(pid)

    return belongs


def _space(pid: int) -> _Identity | None:
    """Network namespace of a process; None when it has ended."""
    try:
        status = Path(f"/proc/{pid}/ns/net").stat()
    except OSError:
        return None
    return (status.st_dev, status.st_ino)


def _groups(pid: int) -> str:
    """Control groups of a process; empty when it has ended."""
    try:
        return Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return ""


def _end(belongs: Callable[[int], bool]) -> None:
    """End all processes that belong, and those they start meanwhile."""
    start = time.monotonic()
    told: set[int] = set()
    while living := _processes(belongs):
        elapsed = time.monotonic() - start
        if elapsed > _GRACE + _GIVE_UP:
            raise DriverError(f"process {living[0]} does not end")
        kill = elapsed > _GRACE
        for pid in living if kill else set(living) - told:
            _signal(pid, belongs, signal.SIGKILL if kill else signal.SIGTERM)
        told |= set(living)
        time.sleep(_POLL)


def _processes(belongs: Callable[[int], bool]) -> list[int]:
    pids = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())
    return [pid for pid in pids if belongs(pid)]


def _signal(pid: int, belongs: Callable[[int], bool], number: signal.Signals) -> None:
    """Signal a process, surely this one: its id may by now be another's."""
    with contextlib.suppress(ProcessLookupError):
        handle = os.pidfd_open(pid)
        try:
            if belongs(pid):
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)
