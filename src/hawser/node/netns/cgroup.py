"""Control groups of nodes: the CPU quota, and the CPU time of a node's programs.

Version 2 where it has the cpu controller, else version 1 (cpu and cpuacct, perhaps mounted
together). A group has the name of its node's namespace. What the kernel forwards runs in
interrupts and is charged to no group, or to the program that happened to be interrupted.

A kernel with `CONFIG_RT_GROUP_SCHED` grants no real-time priority in a group of version 1 that was
given no share of it. What needs that priority is counted only (cpuacct), if even that is apart.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal

from hawser.node.base import NodeError, Usage

LEAST_CORES: Final = 0.01

_MOUNT = Path("/sys/fs/cgroup")
_PERIOD_US = 10_000
"""A group that has used its share waits for the next period: at most this long where it can."""
_LEAST_QUOTA_US = 1_000
"""The kernel allows no less in a period (`min_cfs_quota_period`)."""
_EMPTY_WITHIN = 1.0
"""Seconds in which the kernel forgets processes that have ended."""


@dataclass(frozen=True)
class _Hierarchy:
    """Where groups are made."""

    version: Literal[1, 2]
    roots: tuple[Path, ...]
    """Version 1: of the controllers cpu and cpuacct, in this order."""

    def folders(self, name: str) -> tuple[Path, ...]:
        return tuple(dict.fromkeys(root / name for root in self.roots))


@cache
def _hierarchy() -> _Hierarchy | None:
    for root in (_MOUNT, _MOUNT / "unified"):
        if _delegates_cpu(root):
            return _Hierarchy(2, (root,))
    roots = tuple((_MOUNT / name).resolve() for name in ("cpu", "cpuacct"))
    if all(os.access(root / "cgroup.procs", os.W_OK) for root in roots):
        return _Hierarchy(1, roots)
    return None


def _delegates_cpu(root: Path) -> bool:
    """Let groups of version 2 under this root have the cpu controller."""
    try:
        if "cpu" not in (root / "cgroup.controllers").read_text().split():
            return False
        (root / "cgroup.subtree_control").write_text("+cpu")
    except OSError:
        return False
    return True


def available() -> bool:
    """Whether this machine has usable control groups with CPU quotas."""
    return _hierarchy() is not None


def detail() -> str:
    """What is used, for people."""
    hierarchy = _hierarchy()
    return f"version {hierarchy.version}" if hierarchy else "none with the controller cpu"


def create(name: str, cores: float | None, *, realtime: bool = False) -> None:
    """Make a group, limited to so many cores. Without a limit, a machine without groups will do.

    Args:
        name: of the group.
        cores: The limit.
        realtime: Whether programs in it ask for real-time priority; such a group has no limit.

    Raises:
        NodeError: it cannot be made.
    """
    hierarchy = _hierarchy()
    if hierarchy is None:
        if cores is not None:
            raise NodeError(f"control group {name}: this machine has none with CPU quotas")
        return
    try:
        for folder in hierarchy.folders(name):
            if not (realtime and (folder.parent / "cpu.rt_runtime_us").exists()):
                folder.mkdir(exist_ok=True)
        if cores is not None:
            _limit(hierarchy, hierarchy.folders(name)[0], cores)
    except OSError as error:
        raise NodeError(f"control group {name}: {error.strerror}") from error


def _limit(hierarchy: _Hierarchy, folder: Path, cores: float) -> None:
    period = max(_PERIOD_US, round(_LEAST_QUOTA_US / cores))
    quota = round(cores * period)
    if hierarchy.version == 2:
        (folder / "cpu.max").write_text(f"{quota} {period}")
    else:
        (folder / "cpu.cfs_period_us").write_text(str(period))
        (folder / "cpu.cfs_quota_us").write_text(str(quota))


def enter(name: str) -> None:
    """Version 1: put the calling thread into a group, and with it all that it starts.

    A program that asks for real-time priority first and is put into such a group afterwards is
    refused (`EINVAL`): it has to be there from its first instruction on. A thread of a process
    cannot be in another group of version 2 than the process; see `join`.
    """
    hierarchy = _hierarchy()
    for folder in hierarchy.folders(name) if hierarchy and hierarchy.version == 1 else ():
        with contextlib.suppress(FileNotFoundError):
            (folder / "tasks").write_text("0")


def join(name: str, pid: int) -> None:
    """Version 2: put a process into a group, and with it all that it starts; see `enter`."""
    hierarchy = _hierarchy()
    for folder in hierarchy.folders(name) if hierarchy and hierarchy.version == 2 else ():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            (folder / "cgroup.procs").write_text(str(pid))


def hold(name: str, pid: int) -> None:
    """Put a running process into a group with all its threads, and what it starts from then on.

    Raises:
        NodeError: there is no such group or process, or this machine has no groups.
    """
    hierarchy = _hierarchy()
    if hierarchy is None:
        raise NodeError(f"control group {name}: this machine has none with CPU quotas")
    try:
        for folder in hierarchy.folders(name):
            (folder / "cgroup.procs").write_text(str(pid))
    except OSError as error:
        raise NodeError(f"control group {name}: process {pid}: {error.strerror}") from error


def processes(name: str) -> tuple[int, ...]:
    """Process ids of a group's members; none where there is no group."""
    hierarchy = _hierarchy()
    try:
        text = (hierarchy.folders(name)[-1] / "cgroup.procs").read_text() if hierarchy else ""
    except OSError:
        return ()
    return tuple(map(int, text.split()))


def usage(name: str) -> Usage | None:
    """What all programs of a group used since it was made; None where there is no group."""
    hierarchy = _hierarchy()
    if hierarchy is None:
        return None
    folders = hierarchy.folders(name)
    try:
        counts = _counts(folders[0] / "cpu.stat")
        if hierarchy.version == 1:
            seconds = int((folders[-1] / "cpuacct.usage").read_text()) / 1e9
        else:
            seconds = int(counts["usage_usec"]) / 1e6
    except (OSError, ValueError, KeyError):
        return None
    return Usage(seconds, int(counts.get("nr_periods", 0)), int(counts.get("nr_throttled", 0)))


def _counts(stat: Path) -> dict[str, str]:
    """Empty where the group is counted only."""
    try:
        return dict(line.split() for line in stat.read_text().splitlines())
    except FileNotFoundError:
        return {}


def names(prefix: str) -> tuple[str, ...]:
    """Names of the groups that begin with `prefix`."""
    hierarchy = _hierarchy()
    roots = hierarchy.roots if hierarchy else ()
    found = {path.name for root in roots for path in root.glob(f"{prefix}*") if path.is_dir()}
    return tuple(sorted(found))


def remove(name: str) -> None:
    """Remove a group whose processes have ended. Idempotent.

    Raises:
        NodeError: something still runs in it.
    """
    hierarchy = _hierarchy()
    deadline = time.monotonic() + _EMPTY_WITHIN
    for folder in hierarchy.folders(name) if hierarchy else ():
        while not _removed(folder):
            if time.monotonic() > deadline:
                raise NodeError(f"control group {name}: a process still runs in it")
            time.sleep(0.005)


def _removed(folder: Path) -> bool:
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno == errno.EBUSY:
            return False
        raise NodeError(f"control group {folder.name}: {error.strerror}") from error
    return True
