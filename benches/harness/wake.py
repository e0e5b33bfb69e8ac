"""How late the machine wakes a program that sleeps to absolute times.

    python wake.py SECONDS

Sleeps 0.5 ms at a time with the smallest timer slack, and prints the median and the 99th percentile
of the lateness in microseconds. No emulator in user space can be more punctual than that.
"""

from __future__ import annotations

import ctypes
import sys
import time

_PR_SET_TIMERSLACK = 29
_PERIOD_NS = 500_000


def lateness(seconds: float) -> list[float]:
    """Lateness of every wake-up, microseconds, in ascending order."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_TIMERSLACK, ctypes.c_ulong(1), 0, 0, 0)
    found, at = [], time.monotonic_ns()
    end = at + int(seconds * 1e9)
    while at < end:
        at += _PERIOD_NS
        early = at - time.monotonic_ns()
        if early > 0:
            time.sleep(early / 1e9)
            found.append((time.monotonic_ns() - at) / 1000)
    return sorted(found)


def quantile(ordered: list[float], share: float) -> float:
    """Smallest value that at least this share of the values do not exceed."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


if __name__ == "__main__":
    late = lateness(float(sys.argv[1]))
    sys.stdout.write(f"{quantile(late, 0.5):.1f} {quantile(late, 0.99):.1f}\n")
