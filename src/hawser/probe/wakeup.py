"""How late the kernel wakes a program, and what that says of measurements on this machine."""

from __future__ import annotations

import contextlib
import resource
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from hawser.probe import quiet
from hawser.probe.emulator import LATE_US

SECONDS: Final = 5.0
_PATIENCE_SECONDS = 10.0

_WAKE = """
import ctypes, gc, os, sys, time
granted = "ordinary"
if sys.argv[1] == "realtime":
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        granted = "realtime"
    except OSError:
        pass
PR_SET_TIMERSLACK = 29
ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, ctypes.c_ulong(1), 0, 0, 0)
gc.disable()
late, due = [], time.monotonic_ns()
end = due + int(float(sys.argv[2]) * 1e9)
while due < end:
    due += 1_000_000
    if (early := due - time.monotonic_ns()) > 0:
        time.sleep(early / 1e9)
    now = time.monotonic_ns()
    late.append(now - due)
    due = max(due, now - 1_000_000)
late.sort()
share = lambda s: late[min(len(late) - 1, int(s * len(late)))] / 1000
print(granted, share(0.5), share(0.99), late[-1] / 1000)
"""
"""Wakes up every millisecond, with a timer slack of 1 ns, as the WAN emulator does. It is a process
of its own: a thread of this one would wait for the interpreter's lock as well."""

Scheduling = Literal["realtime", "ordinary"]


@dataclass(frozen=True)
class Lateness:
    """Lateness of wake-ups every millisecond, in microseconds."""

    scheduling: Scheduling
    """`realtime` is SCHED_FIFO of the lowest priority, as the WAN emulator has it."""
    p50: float
    p99: float
    max: float


@dataclass(frozen=True)
class SelfTest:
    """What this machine is good for at the moment."""

    realtime: Lateness
    """`ordinary` where the kernel refuses real-time priority."""
    ordinary: Lateness
    load: quiet.Load

    @property
    def emulates(self) -> bool:
        """Whether the WAN emulator can keep any delay: its lateness is limited to 1 ms at p99."""
        return self.realtime.p99 <= LATE_US


def self_test(
    seconds: float = SECONDS,
    reading: Callable[[], quiet.Reading] = quiet.read,
) -> SelfTest:
    """Wake up for some seconds, with and without real-time priority at once.

    Raises:
        OSError: no process can be started.
        ValueError: one of them gave no result.
    """
    with contextlib.ExitStack() as stack:
        early, used = reading(), _used()
        running = [stack.enter_context(_waker(kind, seconds)) for kind in ("realtime", "ordinary")]
        told = [process.communicate(timeout=seconds + _PATIENCE_SECONDS)[0] for process in running]
        late = reading()
    load = quiet.Load.between(early, late, quiet.processors(), own=_used() - used)
    realtime, ordinary = (_parsed(text) for text in told)
    return SelfTest(realtime, ordinary, load)


def _used() -> float:
    """Seconds of processor time of all children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


def _waker(kind: Scheduling, seconds: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-S", "-E", "-c", _WAKE, kind, str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _parsed(text: str) -> Lateness:
    granted, p50, p99, most = text.split()
    if granted not in ("realtime", "ordinary"):
        raise ValueError(granted)
    scheduling: Scheduling = "realtime" if granted == "realtime" else "ordinary"
    return Lateness(scheduling, float(p50), float(p99), float(most))
