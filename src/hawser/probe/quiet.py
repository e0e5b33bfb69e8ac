"""What others do on this machine right now, and whether something can be measured beside it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

OTHERS_MAX: Final = 0.3
"""Share of the processors that others may use."""
STEAL_MAX: Final = 0.02
"""Share of the time that the host may give to other guests."""
CPU_MAX: Final = 0.25
"""Share of the time in which some task may wait for a processor (pressure stall information)."""
MEMORY_MAX: Final = 0.05
"""Share of the time in which some task may wait for memory."""

_WINDOW_SECONDS = 0.5
_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Reading:
    """Counters of the machine at one moment, all in seconds since boot."""

    at: float
    busy: float
    """All processors together, without steal."""
    steal: float
    cpu_wait: float | None
    """Some task waited for a processor; None where the kernel does not tell."""
    memory_wait: float | None


def read(root: Path = Path("/proc"), clock: Callable[[], float] = time.monotonic) -> Reading:
    """Read the counters."""
    _, *columns = (root / "stat").read_text().partition("\n")[0].split()
    user, nice, system, _, _, irq, softirq, steal = map(int, columns[:8])
    return Reading(
        at=clock(),
        busy=(user + nice + system + irq + softirq) / _TICK,
        steal=steal / _TICK,
        cpu_wait=_stalled(root / "pressure/cpu"),
        memory_wait=_stalled(root / "pressure/memory"),
    )


def _stalled(path: Path) -> float | None:
    """Seconds of the line `some avg10=... total=MICROSECONDS` (Linux: accounting/psi)."""
    try:
        some = path.read_text().partition("\n")[0]
    except OSError:  # no PSI in this kernel, or switched off (EOPNOTSUPP)
        return None
    kind, _, total = some.partition(" ")
    total = total.rpartition("total=")[2]
    return int(total) / 1e6 if kind == "some" and total.isdecimal() else None


@dataclass(frozen=True)
class Load:
    """What the machine did between two readings."""

    cores: int
    others: float
    """Processors in use, on average."""
    steal: float
    """Share of the time."""
    cpu_wait: float
    memory_wait: float

    @classmethod
    def between(cls, early: Reading, late: Reading, cores: int, own: float = 0.0) -> Load:
        """Compare two readings, between which we used `own` seconds of processor time ourselves."""
        seconds = max(late.at - early.at, 1e-9)

        def share(before: float | None, after: float | None) -> float:
            return 0.0 if before is None or after is None else max(0.0, after - before) / seconds

        return cls(
            cores=cores,
            others=share(early.busy, late.busy - own),
            steal=share(early.steal, late.steal) / cores,
            cpu_wait=share(early.cpu_wait, late.cpu_wait),
            memory_wait=share(early.memory_wait, late.memory_wait),
        )

    def __str__(self) -> str:
        """Everything that is looked at."""
        return (
            f"others use {self.others:.1f} of {self.cores} processors, the host takes "
            f"{self.steal:.0%}, programs wait for a processor {self.cpu_wait:.0%} and for memory "
            f"{self.memory_wait:.0%} of the time"
        )

    @property
    def disturbs(self) -> str:
        """Why nothing should be measured beside this; empty if it may be."""
        found = []
        if self.others > OTHERS_MAX * self.cores:
            found.append(f"others use {self.others:.1f} of {self.cores} processors")
        if self.steal > STEAL_MAX:
            found.append(f"the host takes {self.steal:.0%} of the time")
        if self.cpu_wait > CPU_MAX:
            found.append(f"programs wait for a processor {self.cpu_wait:.0%} of the time")
        if self.memory_wait > MEMORY_MAX:
            found.append(f"programs wait for memory {self.memory_wait:.0%} of the time")
        return ", ".join(found)


def look(
    sleep: Callable[[float], None] = time.sleep, reading: Callable[[], Reading] = read
) -> Load:
    """Watch the machine for half a second, while nothing of ours runs."""
    early = reading()
    sleep(_WINDOW_SECONDS)
    return Load.between(early, reading(), processors())


def processors() -> int:
    """Processors of this machine."""
    return os.cpu_count() or 1
