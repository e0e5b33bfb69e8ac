"""Usage and identity of processes."""

from __future__ import annotations

from pathlib import Path

import psutil

from hawser.node.base import NodeError, ProcessUsage, Program, ThreadTimes


def usage(pid: int) -> ProcessUsage:
    """Read the resource usage of a process.

    Raises:
        NodeError: it has ended.
    """
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            times, memory = process.cpu_times(), process.memory_info()
            return ProcessUsage(
                times.user + times.system, memory.rss, _peak(pid), process.num_threads()
            )
    except (psutil.Error, OSError, StopIteration) as error:
        raise NodeError(f"process {pid} has ended") from error


def threads(pid: int) -> dict[int, ThreadTimes]:
    """Times of all threads of a process (its `schedstat`), by id; none when it has ended."""
    found = {}
    for tid in _tids(pid):
        try:
            run, wait, _ = Path(f"/proc/{pid}/task/{tid}/schedstat").read_text().split()
        except (OSError, ValueError):  # it has ended, or this kernel keeps no such account
            continue
        found[tid] = ThreadTimes(int(run) / 1e9, int(wait) / 1e9)
    return found


def _tids(pid: int) -> tuple[int, ...]:
    try:
        return tuple(int(path.name) for path in Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return ()


def program(pid: int) -> Program:
    """Describe a process; without name and threads if it has ended."""
    try:
        name = Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        name = ""
    return Program(pid, name, threads(pid))


def children(pid: int) -> tuple[int, ...]:
    """Process ids of all descendants; none when the process has ended."""
    try:
        return tuple(child.pid for child in psutil.Process(pid).children(recursive=True))
    except psutil.Error:
        return ()


def started(pid: int) -> int | None:
    """When a process started, in clock ticks since boot (proc(5)); None when it has ended.

    Process ids are used again: a pid with its start is one process for ever.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    state, *fields = text.rpartition(")")[2].split()  # the command's name before it may hold spaces
    return None if state in "ZX" else int(fields[18])


def _peak(pid: int) -> int:
    """`VmHWM` of a process; psutil does not have it."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    line = next(line for line in lines if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024
