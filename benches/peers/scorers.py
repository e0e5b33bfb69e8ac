"""Programs that score flows by one forest, each on one core."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

from harness.bench import SampleError
from harness.machine import ROOT
from harness.obtain import UnavailableError
from peers.sensors import FEATURES

_SCRIPT = [sys.executable, "-m", "peers.score_forest"]
"""By its module's name: with its folder in the path, `peers/hawser.py` would hide `hawser`."""
_TIMEOUT_S = 300

Scored = Callable[[], float]
"""Takes a sample: flows that are scored in a second."""


def trees() -> Scored:
    """Build the daemon's trees.

    Raises:
        UnavailableError: cargo cannot build them, or there is no scikit-learn to make the forest.
    """
    _need_sklearn()
    program = str(_built())
    return lambda: _sample(lambda model: [program, model, *FEATURES])


def python(way: str) -> Scored:
    """Prepare `sklearn`, or `table`: how `hawser ids` and the job on Spark score.

    Raises:
        UnavailableError: there is no scikit-learn.
    """
    _need_sklearn()
    return lambda: _sample(lambda model: [*_SCRIPT, way, model])


def _need_sklearn() -> None:
    if find_spec("sklearn") is None:
        raise UnavailableError("scikit-learn is missing (tools/setup --extra ids)")


def _sample(command: Callable[[str], Sequence[str]]) -> float:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.json"
        file.write_bytes(model())
        return float(_output(command(str(file))))


@functools.cache
def model() -> bytes:
    """Make the forest.

    Raises:
        SampleError: scikit-learn fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.json"
        _output([*_SCRIPT, "make", str(file)])
        return file.read_bytes()


def _output(command: Sequence[str]) -> str:
    """Run a command on one core."""
    path = os.pathsep.join(str(ROOT / folder) for folder in ("src", "benches"))
    done = subprocess.run(
        ["taskset", "-c", "0", *command],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=_TIMEOUT_S,
    )
    if done.returncode:
        raise SampleError(done.stderr.strip()[-500:] or f"{command[0]} failed")
    return done.stdout


@functools.cache
def _built() -> Path:
    command = ["cargo", "build", "--release", "--locked", "--example", "score"]
    command += ["-p", "hawser-trees", "--message-format=json"]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = [json.loads(line) for line in built.stdout.splitlines()]
    programs = [line["executable"] for line in lines if line.get("executable")]
    if built.returncode or not programs:
        raise UnavailableError(f"cargo build failed: {built.stderr[-500:]}")
    return Path(programs[-1])
