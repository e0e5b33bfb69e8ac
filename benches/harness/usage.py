"""CPU and memory of processes and of the whole machine, from /proc (proc(5))."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class CpuTime:
    """CPU seconds used so far by the whole machine and by some processes."""

    machine: float
    processes: float

    def __sub__(self, earlier: CpuTime) -> CpuTime:
        return CpuTime(self.machine - earlier.machine, self.processes - earlier.processes)


def cpu_time(pids: Sequence[int]) -> CpuTime:
    """CPU time of the machine and of the processes.

    Raises:
        OSError: one of the processes is gone.
    """
    stats = [Path(f"/proc/{pid}/stat").read_text() for pid in pids]
    return CpuTime(
        machine=machine_seconds(Path("/proc/stat").read_text()),
        processes=sum(process_seconds(stat) for stat in stats),
    )


def machine_seconds(stat: str) -> float:
    """CPU seconds of all cores in /proc/stat, without those of niced processes.

    On a shared machine other users run their builds niced; nothing that is measured here is niced.
    """
    user, _nice, system, _idle, _iowait, irq, softirq = map(int, stat.split()[1:8])
    return (user + system + irq + softirq) / _TICKS


def busy_share(earlier: str, later: str) -> float:
    """Share of all cores in use between two readings of /proc/stat, 0 to 1."""
    passed = _passed(earlier, later)
    idle = passed[3] + passed[4]
    return 1 - idle / (sum(passed) or 1)


def niced_share(earlier: str, later: str) -> float:
    """Share of all cores used by niced processes between two readings of /proc/stat, 0 to 1."""
    passed = _passed(earlier, later)
    return passed[1] / (sum(passed) or 1)


def _passed(earlier: str, later: str) -> list[int]:
    """Ticks between two readings, for the fields user to steal in the order of /proc/stat."""
    before, after = (list(map(int, text.split()[1:9])) for text in (earlier, later))
    return [b - a for a, b in zip(before, after, strict=True)]


def process_seconds(stat: str) -> float:
    """CPU seconds, user and system, of all threads of a process in /proc/PID/stat."""
    after_name = stat.rpartition(")")[2].split()  # the name may contain spaces and parentheses
    return (int(after_name[11]) + int(after_name[12])) / _TICKS


def memory_mib(pid: int, *, peak: bool = False) -> float:
    """Resident memory of a process in MiB: the current value, or with `peak` the maximum so far.

    Raises:
        OSError: the process is gone.
    """
    return status_mib(Path(f"/proc/{pid}/status").read_text(), "VmHWM" if peak else "VmRSS")


def status_mib(status: str, field: str) -> float:
    """A field of /proc/PID/status in MiB (the kernel writes KiB)."""
    for line in status.splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"no {field} in /proc/PID/status: the process is gone")
