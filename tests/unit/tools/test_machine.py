"""How tests of speed are judged: tests/lab/machine.py."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from lab import machine
from lab.machine import Conditions

QUIET = Conditions(others=0.02, wakeup_p99=0.0001, wakeup_max=0.003, stalled=0.0)
BUSY = Conditions(others=1.3, wakeup_p99=0.0001, wakeup_max=0.003, stalled=0.0)
STALLED = Conditions(others=0.02, wakeup_p99=0.009, wakeup_max=0.2, stalled=0.08)


def report(outcome: Any) -> pytest.TestReport:  # noqa: ANN401 (of pytest's own choice of words)
    where = ("tests/timing/test_x.py", 7, "test_x")
    longrepr = "E  assert 3 < 2\nmore" if outcome == "failed" else None
    return pytest.TestReport("x", where, {}, outcome, longrepr, "call")


@pytest.mark.parametrize("conditions", [QUIET, BUSY, STALLED])
def test_what_passes_stays_green(conditions: Conditions) -> None:
    judged = report("passed")
    machine.judge(judged, conditions)
    assert judged.passed


def test_a_failure_on_a_quiet_machine_is_red() -> None:
    judged = report("failed")
    machine.judge(judged, QUIET)
    assert judged.failed
    assert judged.sections == [("machine meanwhile", str(QUIET))]


def test_a_test_that_tolerates_fewer_stalls_is_skipped_at_fewer() -> None:
    conditions = replace(QUIET, stalled=0.008)
    judged, tolerant = report("failed"), report("failed")
    machine.judge(judged, conditions, stalls=0.005)
    machine.judge(tolerant, conditions)
    assert judged.skipped
    assert "stood still for 0.8% of the time (limit 0.5%)" in str(judged.longrepr)
    assert tolerant.failed


@pytest.mark.parametrize(
    ("conditions", "why"),
    [(BUSY, "others used 1.30 cores"), (STALLED, "stood still for 8.0% of the time")],
)
def test_a_failure_on_a_disturbed_machine_is_skipped_with_the_figure(
    conditions: Conditions, why: str
) -> None:
    judged = report("failed")
    machine.judge(judged, conditions)
    assert judged.skipped
    assert isinstance(judged.longrepr, tuple)
    path, line, reason = judged.longrepr
    assert (path, line) == ("tests/timing/test_x.py", 7)
    assert why in reason
    assert reason.endswith("it said: E  assert 3 < 2")


def test_what_others_use_is_seen() -> None:
    """A process that is not our child until it ends is another's."""
    burning = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        assert machine.idle(0.5).others > 0.05
    finally:
        burning.kill()
        burning.wait()
