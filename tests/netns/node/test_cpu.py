"""A node's share of processor time holds, is counted, and leaves nothing behind.

a: e 10.0.0.1/24 --x-- e 10.0.0.2/24 :b        programs on a share 0.05 or 0.3 cores
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hawser.driver.local import LocalLab
from hawser.node.base import Usage
from hawser.node.netns import NamespaceNode, cgroup
from hawser.overlay.lab.plan import NetworkPlan
from lab.plans.small import pair, whole
from lab.waiting import until

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(not cgroup.available(), reason="no control groups of processor time here"),
]

BURN = [sys.executable, "-c", "while True: pass"]


def limited(cores: float | None) -> NetworkPlan:
    plan = pair(whole())
    first = plan.nodes[0].model_copy(update={"cpu": cores})
    return plan.model_copy(update={"nodes": (first, *plan.nodes[1:])})


@pytest.mark.parametrize("cores", [0.05, 0.3])
def test_programs_get_their_share_and_no_more(
    deploy: Callable[[NetworkPlan], LocalLab], cores: float
) -> None:
    node = deploy(limited(cores)).nodes["a"]
    programs = [node.start(BURN) for _ in range(3)]
    pids = {program.pid for program in programs}
    until(lambda: {each.pid for each in node.programs()} == pids, "all run in the group")
    start = time.monotonic()
    before = usage(node)
    until(lambda: usage(node).throttled >= before.throttled + 10, "they have to wait")
    after = usage(node)
    seconds = time.monotonic() - start
    for program in programs:
        program.stop()
    # A core may defer its share of the first period, and run to the end of a tick.
    assert after.cpu_seconds - before.cpu_seconds < 1.1 * cores * (seconds + 0.1) + 0.02
    assert after.cpu_seconds > before.cpu_seconds
    assert after.periods - before.periods >= after.throttled - before.throttled


def usage(node: NamespaceNode) -> Usage:
    found = node.usage()
    assert found is not None
    return found


def test_without_a_limit_nothing_is_throttled(
    deploy: Callable[[NetworkPlan], LocalLab],
) -> None:
    node = deploy(limited(None)).nodes["a"]
    program = node.start(BURN)
    until(lambda: usage(node).cpu_seconds > 0.1)
    used = usage(node)
    program.stop()
    assert used.throttled == 0


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
    escaped = lab.nodes["a"].start(["unshare", "--net", "sleep", "600"])
    inside = Path("/run/netns", lab.nodes["a"].namespace).stat().st_ino
    until(lambda: network_of(escaped.pid) not in (network_of(os.getpid()), inside), "it left")
    lab.destroy()
    assert not escaped.running()
    escaped.stop()


def network_of(pid: int) -> int:
    return Path(f"/proc/{pid}/ns/net").stat().st_ino


def test_an_emulator_may_go_before_ordinary_processes(
    deploy: Callable[[NetworkPlan], LocalLab],
) -> None:
    """A cgroup of version 1 grants its members no real-time priority."""
    plan = pair(whole())
    nodes = (plan.nodes[0].model_copy(update={"role": "wan"}), *plan.nodes[1:])
    node = deploy(plan.model_copy(update={"nodes": nodes})).nodes["a"]
    program = node.start([sys.executable, "-c", "import time; time.sleep(600)"])
    until(lambda: program.pid in {each.pid for each in node.programs()})
    os.sched_setscheduler(program.pid, os.SCHED_FIFO, os.sched_param(1))
    program.stop()


def test_a_program_that_asks_for_priority_at_once_is_in_the_group_before(
    deploy: Callable[[NetworkPlan], LocalLab], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel refuses to put a real-time program into a group that grants it no such time."""

    def late(name: str, pid: int) -> None:
        time.sleep(0.3)
        joined(name, pid)

    joined = cgroup.join
    monkeypatch.setattr(cgroup, "join", late)
    node = deploy(limited(None)).nodes["a"]
    program = node.start([sys.executable, "-c", ASK_AND_STAY])
    until(lambda: program.pid in {each.pid for each in node.programs()}, "it is in the group")
    program.stop()


ASK_AND_STAY = """
import contextlib, os, time
with contextlib.suppress(PermissionError):
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
time.sleep(600)
"""
