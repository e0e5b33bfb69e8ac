"""Processes that outlive who started them are found again, and no others."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

from hawser.ids.cluster import processes

STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(1, flush=True)
time.sleep(60)
"""


def start(folder: Path, code: str) -> processes.Started:
    command = (sys.executable, "-c", code)
    return processes.start(command, folder / "p.json", folder / "p.log", {"A": "b"})


def test_a_process_is_found_and_stopped(tmp_path: Path) -> None:
    made = start(tmp_path, "import os, time; print(os.environ['A'], flush=True); time.sleep(60)")
    found = processes.running(tmp_path / "p.json")
    assert found is not None
    assert found.pid == made.pid
    assert os.getsid(made.pid) == made.pid
    while not (tmp_path / "p.log").read_text():
        time.sleep(0.05)
    assert (tmp_path / "p.log").read_text() == "b\n"
    assert processes.stop(tmp_path / "p.json")
    assert processes.running(tmp_path / "p.json") is None
    assert not processes.stop(tmp_path / "p.json")


def test_one_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    made = start(tmp_path, STUBBORN)
    while not (tmp_path / "p.log").read_text():
        time.sleep(0.05)
    assert processes.stop(tmp_path / "p.json", patience_s=0.5)
    assert made.process() is None


def test_another_process_with_its_number_is_not_taken_for_it(tmp_path: Path) -> None:
    made = start(tmp_path, "import time; time.sleep(60)")
    record = tmp_path / "p.json"
    record.write_text(json.dumps({"pid": made.pid, "created": made.created - 1}))
    assert processes.running(record) is None
    assert not processes.stop(record)
    os.kill(made.pid, signal.SIGKILL)
    os.waitpid(made.pid, 0)
    record.write_text("nonsense")
    assert processes.running(record) is None
