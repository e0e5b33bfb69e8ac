"""Programs of a node with a share of processor time use it up.

a: e 10.0.0.1/24 --x-- e 10.0.0.2/24 :b        programs on a share 0.05 or 0.3 cores
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import pytest

from hawser.driver.local import LocalLab
from hawser.node.netns import cgroup
from hawser.overlay.lab.plan import NetworkPlan
from lab.plans.small import pair, whole
from lab.waiting import until

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(not cgroup.available(), reason="no control groups of processor time here"),
]

BURN = [sys.executable, "-c", "while True: pass"]


@pytest.mark.parametrize("cores", [0.05, 0.3])
def test_programs_use_up_their_share(
    deploy: Callable[[NetworkPlan], LocalLab], cores: float
) -> None:
    plan = pair(whole())
    first = plan.nodes[0].model_copy(update={"cpu": cores})
    node = deploy(plan.model_copy(update={"nodes": (first, *plan.nodes[1:])})).nodes["a"]
    programs = [node.start(BURN) for _ in range(3)]
    until(lambda: len(node.programs()) == 3, "all run in the group")
    time.sleep(0.3)
    before, start = node.usage(), time.monotonic()
    time.sleep(1.5)
    after, seconds = node.usage(), time.monotonic() - start
    for program in programs:
        program.stop()
    assert before is not None
    assert after is not None
    used = (after.cpu_seconds - before.cpu_seconds) / seconds
    assert 0.5 * cores < used < 1.1 * cores + 0.01
    assert after.throttled - before.throttled > 0.5 * (after.periods - before.periods) > 0
