"""The machine and the software versions behind a measurement."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict

ROOT = Path(__file__).resolve().parents[2]
"""The repository."""


class Machine(BaseModel):
    """The machine, the time, and the versions of the software that was measured."""

    model_config = ConfigDict(frozen=True)

    cpu: str
    cores: int
    memory_gib: float
    kernel: str
    system: str
    date: str
    revision: str
    seed: int
    software: dict[str, str]


def describe(software: Mapping[str, str], seed: int) -> Machine:
    """Describe this machine now. `software` gives the version of each peer and tool."""
    return Machine(
        cpu=field(Path("/proc/cpuinfo").read_text(), "model name", ":"),
        cores=len(os.sched_getaffinity(0)),
        memory_gib=round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
        kernel=platform.release(),
        system=field(Path("/etc/os-release").read_text(), "PRETTY_NAME", "=").strip('"'),
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        revision=revision(),
        seed=seed,
        software=dict(software),
    )


def field(text: str, name: str, separator: str) -> str:
    """Value of the first line `NAME SEPARATOR VALUE`, or `unknown`."""
    for line in text.splitlines():
        key, _, value = line.partition(separator)
        if key.strip() == name:
            return value.strip()
    return "unknown"


def revision() -> str:
    """Git revision, marked if relevant files differ from it."""
    head = _git("rev-parse", "--short=12", "HEAD")
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", "crates", "benches")
    return f"{head} with local changes" if changed else head


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else "unknown"
