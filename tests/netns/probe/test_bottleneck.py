"""Real traffic through one limit leaves the evidence that leads to it, on a busy machine too.

   h1                  fw                       h2
  +---------+         +------------------+         +---------+
  | x .0.1  |----x----| x .0.2    y .0.5 |----y----| y .0.6  |       10.255.0.0/16,
  +---------+         +------------------+         +---------+       400 Mbit/s each unless changed

That nothing else is named on a quiet machine is tested in tests/timing, and with recorded evidence
in tests/unit/stats.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from hawser.driver.local import LocalDriver
from hawser.node.netns import cgroup
from hawser.stats.evidence import Program
from lab.run.bottleneck import FREE, LIMITED, SEVERAL, judged, scenario

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(not cgroup.available(), reason="no control groups of processor time here"),
]

DEEP = ("topology.links.y.queue=2 MB",)
FURTHER = {
    # An iperf3 that did not get the CPU catches up in one burst.
    "UDP at a quarter of the rate": DEEP,
    "TCP at a quarter of the rate": DEEP,
    # Waiting for the window takes longer than waiting for a processor, and than the start.
    "receiver with a small window": (
        "topology.links.y.delay=100 ms",
        "measurements.m.duration=6 s",
    ),
}
"""Changes to the workflow that give a busy machine time."""
PAUSED = {"sender that has little to send"}
"""Pauses are told from waiting for a processor on a quiet machine only: tests/timing has these."""


@pytest.mark.parametrize("name", [name for name in LIMITED if name not in PAUSED])
def test_the_limit_is_named(name: str, driver: LocalDriver, lab_name: str, tmp_path: Path) -> None:
    kind, element, overrides, setups = LIMITED[name]
    about = scenario(*overrides, *FURTHER.get(name, ()))
    verdict = judged(driver, lab_name, tmp_path, about, *setups)
    assert (kind, element) in {(cause.kind, cause.element) for cause in verdict.limits}


@pytest.mark.parametrize("name", SEVERAL)
def test_each_of_several_limits_is_named(
    name: str, driver: LocalDriver, lab_name: str, tmp_path: Path
) -> None:
    limits, overrides, setups = SEVERAL[name]
    verdict = judged(driver, lab_name, tmp_path, scenario(*overrides), *setups)
    assert {(cause.kind, cause.element) for cause in verdict.limits} >= limits


@pytest.mark.parametrize("name", FREE)
def test_no_innocent_is_named(
    name: str, driver: LocalDriver, lab_name: str, tmp_path: Path
) -> None:
    """A program may wait for a CPU that others use; nothing else is at its limit."""
    overrides, setups = FREE[name]
    about = scenario(*overrides, *FURTHER.get(name, ()))
    verdict = judged(driver, lab_name, tmp_path, about, *setups)
    programs = {c.element for c in verdict.limits if isinstance(c.observation, Program)}
    assert {c.element for c in verdict.limits if c.kind != "load"} <= programs
    assert verdict.nearest is not None
