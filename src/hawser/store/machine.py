"""Description of this machine, read from /proc and /etc."""

from __future__ import annotations

import os
from pathlib import Path

from hawser.store.manifest import Machine

_UNKNOWN = "unknown"


def this_machine(root: Path = Path("/")) -> Machine:
    """Describe the machine with this root directory; missing values are `unknown` or 0."""
    return Machine(
        cpu=_field(root / "proc/cpuinfo", "model name", ":"),
        cores=len(os.sched_getaffinity(0)),
        memory=_memory(root / "proc/meminfo"),
        kernel=_text(root / "proc/sys/kernel/osrelease").strip() or _UNKNOWN,
        distribution=_field(root / "etc/os-release", "PRETTY_NAME", "=").strip('"'),
    )


def _memory(meminfo: Path) -> int:
    total = _field(meminfo, "MemTotal", ":").split()[0]
    return int(total) * 1024 if total.isdecimal() else 0


def _field(file: Path, name: str, separator: str) -> str:
    """Value of the first line `name separator value`."""
    for line in _text(file).splitlines():
        key, found, value = line.partition(separator)
        if found and key.strip() == name:
            return value.strip() or _UNKNOWN
    return _UNKNOWN


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""
