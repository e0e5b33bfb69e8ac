"""A node's share of processor time holds, is counted, and leaves nothing behind.

a --x-- b
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

import pytest
from driver_plans import pair, whole
from waiting import until

from hawser.driver.local import LocalLab
from hawser.node import cgroup
from hawser.overlay.plan import NetworkPlan

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(not cgroup.available(), reason="no control groups of processor time here"),
]

BURN = [sys.executable, "-c", "while True: pass"]


def limited(cores: float | None) -> NetworkPlan:
    plan = pair(whole())
    first = plan.nodes[0].model_copy(update={"cpu": cores})
    return plan.model_copy(update={"nodes": (first, *plan.nodes[1:])})


@pytest.mark.measures
@pytest.mark.parametrize("cores", [0.05, 0.3])
def test_programs_get_their_share_and_no_more(
    deploy: Callable[[NetworkPlan], LocalLab], cores: float
) -> None:
    node = deploy(limited(cores)).nodes["a"]
    programs = [node.start(BURN) for _ in range(3)]
    time.sleep(0.3)
    before, start = node.usage(), time.monotonic()
    time.sleep(1.5)
    after, seconds = node.usage(), time.monotonic() - start
    assert set(node.processes()) == {program.pid for program in programs}
    for program in programs:
        program.stop()
    assert before is not None
    assert after is not None
    used = (after.cpu_seconds - before.cpu_seconds) / seconds
    assert used < 1.1 * cores + 0.01
    assert used > 0.5 * cores  # the machine may be busy with other things
    assert after.throttled - before.throttled > 0.5 * (after.periods - before.periods) > 0


def test_without_a_limit_nothing_is_throttled(
    deploy: Callable[[NetworkPlan], LocalLab],
) -> None:
    node = deploy(limited(None)).nodes["a"]
    program = node.start(BURN)
    until(lambda: (usage := node.usage()) is not None and usage.cpu_seconds > 0.1)
    usage = node.usage()
    program.stop()
    assert usage is not None
    assert usage.throttled == 0


def test_groups_go_with_the_lab(deploy: Callable[[NetworkPlan], LocalLab]) -> None:
    lab = deploy(limited(0.1))
    prefix = f"hawser.{lab.name}."
    assert set(cgroup.names(prefix)) == {f"{prefix}a", f"{prefix}b"}
    program = lab.nodes["a"].start(BURN)
    lab.destroy()
    assert program.stop().returncode != 0
    assert cgroup.names(prefix) == ()
    assert lab.nodes["a"].usage() is None


def test_what_left_the_namespace_is_ended_too(deploy: Callable[[NetworkPlan], LocalLab]) -> None:
    lab = deploy(limited(None))
    escaped = lab.nodes["a"].start(["unshare", "--net", "sleep", "60"])
    time.sleep(0.2)
    lab.destroy()
    assert not escaped.running()
    escaped.stop()


def test_an_emulator_may_go_before_ordinary_processes(
    deploy: Callable[[NetworkPlan], LocalLab],
) -> None:
    """A control group of version 1 grants no real-time priority to what is in it."""
    plan = pair(whole())
    nodes = (plan.nodes[0].model_copy(update={"role": "wan"}), *plan.nodes[1:])
    node = deploy(plan.model_copy(update={"nodes": nodes})).nodes["a"]
    program = node.start([sys.executable, "-c", "import time; time.sleep(60)"])
    until(lambda: program.pid in node.processes())
    os.sched_setscheduler(program.pid, os.SCHED_FIFO, os.sched_param(1))
    program.stop()
