"""Builds or finds the peers; `UnavailableError` says why one is unavailable here."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.machine import ROOT

PEERS = ROOT / "target" / "peers"
_BUILD_TIMEOUT_S = 900


class UnavailableError(Exception):
    """A peer is unavailable on this machine; the text says why."""


@dataclass(frozen=True)
class Program:
    """An executable file and its version."""

    path: str
    version: str


def from_go(module: str) -> Program:
    """Build the newest version of a Go module's command with `go install`.

    Raises:
        UnavailableError: Go is not installed, or cannot build the module.
    """
    binary = PEERS / "bin" / module.rpartition("/")[2]
    _build(["go", "install", f"{module}@latest"], binary, {"GOBIN": str(binary.parent)})
    about = _output(["go", "version", "-m", str(binary)])
    return Program(str(binary), _first(r"^\s+mod\s+\S+\s+(\S+)", about))


def from_cargo(crate: str) -> Program:
    """Build the newest version of a crate's command with cargo.

    Raises:
        UnavailableError: cargo is not installed, or cannot build the crate.
    """
    binary = PEERS / "bin" / crate
    _build(["cargo", "install", "--locked", "--root", str(PEERS), crate], binary, {})
    return Program(str(binary), _first(r"(\d\S*)", _output([str(binary), "--version"])))


def from_system(command: str, package: str) -> Program:
    """Find a program that a Debian package installs.

    Raises:
        UnavailableError: it is not installed.
    """
    path = shutil.which(command)
    if path is None:
        raise UnavailableError(f"{command} is not installed (apt-get install {package})")
    return Program(path, _first(r"(\d+(?:\.\d+)+)", _output([path, "--version"])))


@functools.cache  # a bench measures the same build throughout
def hawserd() -> Program:
    """Build this repository's daemon.

    Raises:
        UnavailableError: cargo is not installed, or the build fails.
    """
    binary = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "hawserd"
    manifest = str(ROOT / "Cargo.toml")
    command = ["cargo", "build", "--release", "--locked", "--manifest-path", manifest]
    _build([*command, "--package", "hawserd"], binary, {})
    return Program(str(binary), _first(r"(\d\S*)", _output([str(binary), "--version"])))


def _build(command: Sequence[str], binary: Path, environment: Mapping[str, str]) -> None:
    """Run a build. If it fails, for example without network, accept an earlier binary."""
    if shutil.which(command[0]) is None:
        raise UnavailableError(f"{command[0]} is not installed")
    binary.parent.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(
            command,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=_BUILD_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UnavailableError(f"{' '.join(command[:2])} took over {_BUILD_TIMEOUT_S} s") from None
    if done.returncode != 0 and not binary.exists():
        reason = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise UnavailableError(f"{' '.join(command[:2])} failed: {reason}")


def _output(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    return done.stdout + done.stderr


def _first(pattern: str, text: str) -> str:
    found = re.search(pattern, text, re.MULTILINE)
    return found.group(1) if found else "unknown"
