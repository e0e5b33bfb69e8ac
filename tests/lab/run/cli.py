"""The command line as a user starts it, and what is left on the machine afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hawser.driver import names
from hawser.node.netns import cgroup, namespace
from lab import ROOT

REPOSITORY = ROOT


def environment() -> dict[str, str]:
    inherited = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return inherited | {"PYTHONPATH": str(REPOSITORY / "src")}


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "hawser.cli", *map(str, arguments)]


def hawser(*arguments: object, cwd: Path, timeout: float = 240) -> subprocess.CompletedProcess[str]:
    """Run a verb to its end."""
    return subprocess.run(
        command(*arguments),
        cwd=cwd,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def start(*arguments: object, cwd: Path) -> subprocess.Popen[str]:
    """Start a verb, in a process group of its own."""
    return subprocess.Popen(
        command(*arguments),
        cwd=cwd,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def bundles(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / "runs").glob("*") if not path.name.startswith("."))


def trials(bundle: Path) -> list[dict[str, Any]]:
    """Records of the finished trials."""
    return [json.loads(file.read_text()) for file in sorted(bundle.glob("trials/0*/trial.json"))]


def lab_of(bundle: Path) -> str:
    """Name of the labs of a run."""
    workflow, _, token = bundle.name.rsplit("-", 2)
    return f"{workflow}-{token}"


def remains(lab: str) -> Sequence[object]:
    """Everything of a lab that is still there: namespaces, processes, its directory."""
    directory = names.ROOT / lab
    return [
        *namespace.names(names.prefix(lab)),
        *cgroup.names(names.prefix(lab)),
        *processes(str(directory)),
        *([directory] if directory.exists() else []),
    ]


def processes(text: str) -> list[str]:
    """Command lines of processes that hold a text, such as a lab's directory."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if text in line:
            found.append(line)
    return found


def clients(lab: str) -> list[int]:
    """Processes of iperf3 clients in a lab's namespaces."""
    found: list[int] = []
    for name in namespace.names(names.prefix(lab)):
        with namespace.identity(name) as space:
            found += [
                int(path.name)
                for path in Path("/proc").glob("[0-9]*")
                if _space(path) == space and b"iperf3\0-c\0" in _line(path)
            ]
    return found


def _space(process: Path) -> tuple[int, int] | None:
    try:
        status = (process / "ns/net").stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _line(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""
