"""What this machine can do, and what others did to it while something was measured.

A test of punctuality or speed says nothing about the program when another program, or another
guest of the same host, had the processor meanwhile. These figures decide whether it is judged.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

OTHERS = 0.25
"""Cores that other programs and guests may use on average while a test is judged."""
STALLS = 0.02
"""Share of the time that may be lost to stalls of the whole machine."""

_TICK = os.sysconf("SC_CLK_TCK")

_SENTINEL = """
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
try:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(90))
except OSError:
    os.nice(-20)
step, due, late = 0.001, time.monotonic(), []
print("ready", flush=True)
os.set_blocking(0, False)
while True:
    due += step
    time.sleep(max(0, due - time.monotonic()))
    now = time.monotonic()
    late.append(now - due)
    due = max(due, now - step)
    if len(late) % 20 == 0:
        try:
            if os.read(0, 1) == b"":
                break
        except BlockingIOError:
            pass
late.sort()
stalled = sum(x for x in late if x > 0.001)
print(late[len(late) * 99 // 100], late[-1], stalled)
"""
"""Wakes up every millisecond on one CPU, before all ordinary programs, so it is late only when the
kernel or the host is. At the end: 99th percentile and maximum of its lateness, and the time lost
in waits of over 1 ms, all in seconds."""


@dataclass(frozen=True)
class Conditions:
    """Conditions during a measurement."""

    others: float
    """Cores that other programs and guests used on average."""
    wakeup_p99: float
    """99th percentile of how late a program of highest priority woke up, s, on the worst CPU."""
    wakeup_max: float
    stalled: float
    """Share of the time lost in wake-ups that were more than 1 ms late, on the worst CPU."""

    def disturbed(self, stalls: float = STALLS) -> str | None:
        """Why nothing can be judged under these conditions; None where it can.

        `stalls`: share of the time that may be lost to stalls, where a test tolerates less.
        """
        found = []
        if self.others >= OTHERS:
            found.append(f"others used {self.others:.2f} cores (limit {OTHERS})")
        if self.stalled >= stalls:
            found.append(
                f"the machine stood still for {self.stalled:.1%} of the time (limit {stalls:.1%})"
            )
        return "; ".join(found) or None

    def __str__(self) -> str:
        return (
            f"others use {self.others:.2f} cores, wake-ups p99 {self.wakeup_p99 * 1e3:.2f} ms, "
            f"max {self.wakeup_max * 1e3:.1f} ms, stood still for {self.stalled:.2%}"
        )


class Watch:
    """Records conditions from now on until `end`."""

    def __init__(self) -> None:
        self._sentinels = [_sentinel(cpu) for cpu in sorted(os.sched_getaffinity(0))]
        self._start = time.monotonic()
        self._others = _others()

    def end(self) -> Conditions:
        """Stop recording. What our own children used counts as others' until they are reaped."""
        others, seconds = _others() - self._others, time.monotonic() - self._start
        told = [sentinel.communicate("")[0].split() for sentinel in self._sentinels]
        p99, most, stalled = (max(map(float, figures)) for figures in zip(*told, strict=True))
        return Conditions(others / seconds, p99, most, stalled / seconds)


def _sentinel(cpu: int) -> subprocess.Popen[str]:
    """Start the one that wakes up on a CPU, and wait until it does."""
    command = [sys.executable, "-S", "-E", "-c", _SENTINEL, str(cpu)]
    started = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert started.stdout is not None
    started.stdout.readline()
    return started


def judge(report: pytest.TestReport, conditions: Conditions, stalls: float = STALLS) -> None:
    """Turn a failure under conditions that nothing can be judged by into a skip.

    A failure that stays red says the conditions. `stalls`: see `Conditions.disturbed`.
    """
    if not report.failed:
        return
    why = conditions.disturbed(stalls)
    if why is None:
        report.sections.append(("machine meanwhile", str(conditions)))
        return
    crash = getattr(report.longrepr, "reprcrash", None)
    said = str(crash.message if crash else report.longrepr).partition("\n")[0]
    path, line, _ = report.location
    report.outcome = "skipped"
    report.longrepr = (path, line or 0, f"Skipped: not judged, {why}; it said: {said}")


def idle(seconds: float = 1.0) -> Conditions:
    """Give the conditions while nothing of ours runs."""
    watch = Watch()
    time.sleep(seconds)
    return watch.end()


def core_rate() -> float:
    """Give how many million rounds of a plain loop one core does a second: the median of five."""

    def once() -> float:
        rounds, start = 200_000, time.perf_counter()
        for _ in range(rounds):
            pass
        return rounds / (time.perf_counter() - start) / 1e6

    return statistics.median(once() for _ in range(5))


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
