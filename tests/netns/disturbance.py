"""What others of this machine do while something is measured.

A figure says nothing of what was measured when another program had the processor. So a failed
test that `measures` is tried again where it was disturbed, and only there.
"""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol

ATTEMPTS = 3
LIMIT = 0.25
"""Cores that others use, from which a measurement is called disturbed."""
_CALM_WITHIN = 60.0
"""Seconds to wait for calm before another attempt."""
_TICK = os.sysconf("SC_CLK_TCK")


class Watch:
    """Counts what others use of the processors from now on."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._others = _others()

    def cores(self) -> float:
        """Cores that others used on average. Our children count as others until they are reaped."""
        return (_others() - self._others) / (time.monotonic() - self._start)


def _others() -> float:
    """Seconds of processor time that neither we used nor the kernel for packets on their way."""
    _, *columns = Path("/proc/stat").read_text().splitlines()[0].split()
    user, nice, system, _, _, irq, softirq, steal = map(int, columns[:8])
    own = sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )
    busy = (user + nice + system + irq + softirq + steal) / _TICK
    return busy - own - _softirqs()


def _softirqs() -> float:
    """Seconds that the kernel's own threads for packets used."""
    ticks = 0
    for path in Path("/proc").glob("[0-9]/stat"), Path("/proc").glob("[0-9][0-9]/stat"):
        for stat in path:
            name, _, rest = stat.read_text().rpartition(")")
            if "(ksoftirqd/" in name:
                ticks += sum(map(int, rest.split()[11:13]))
    return ticks / _TICK


def run_undisturbed(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Run a test; while it fails and was disturbed, once more."""
    for attempt in range(1, ATTEMPTS + 1):
        watch = Watch()
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        cores = watch.cores()
        if attempt == ATTEMPTS or cores < LIMIT or all(not report.failed for report in reports):
            break
        print(f"\n{item.nodeid}: failed while others used {cores:.2f} cores; once more")  # noqa: T201
        _await_calm()
        item._initrequest()  # type: ignore[attr-defined]
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)


def _await_calm() -> None:
    deadline = time.monotonic() + _CALM_WITHIN
    while time.monotonic() < deadline:
        watch = Watch()
        time.sleep(1)
        if watch.cores() < LIMIT:
            return
