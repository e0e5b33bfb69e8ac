"""How fast a lab is deployed, against the plain `ip` commands for its namespaces and cables.

h1 -- gw1 ==a,b== internet ==a,b== gw2 -- h2, and so on to gw5      (lab/plans/small.py)
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

from hawser.driver.local import LocalLab
from hawser.overlay.lab.plan import NetworkPlan
from lab.plans.small import branches
from lab.waiting import PATIENCE

pytestmark = pytest.mark.root

Deploy = Callable[[NetworkPlan], LocalLab]


RATIO = 6
"""Time of a whole lab over that of the commands."""


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], timeout=PATIENCE, check=True)


@pytest.fixture
def names(lab_name: str) -> Iterator[dict[str, str]]:
    """Names of plain namespaces for the nodes of a plan, removed afterwards."""
    found = {node.name: f"plain.{lab_name}.{node.name}" for node in branches(5).nodes}
    yield found
    for name in found.values():
        subprocess.run(["ip", "netns", "delete", name], timeout=PATIENCE, check=False)


def plain(plan: NetworkPlan, names: dict[str, str]) -> None:
    """Make the namespaces and cables of a plan, without addresses, routes and shapers."""
    for name in names.values():
        ip("netns", "add", name)
    for link in plan.links:
        (node, interface), (peer, other) = link.ends
        ends = ("name", interface, "type", "veth", "peer", "name", other, "netns", names[peer])
        ip("-n", names[node], "link", "add", *ends)
        for where, name in ((node, interface), (peer, other)):
            ip("-n", names[where], "link", "set", "dev", name, "up")


def test_five_branches_stand_within_two_seconds(deploy: Deploy, names: dict[str, str]) -> None:
    plan = branches(5)
    start = time.perf_counter()
    plain(plan, names)
    commands = time.perf_counter() - start
    start = time.perf_counter()
    deploy(plan)
    whole = time.perf_counter() - start
    assert whole < 2, f"{whole:.2f} s; the plain commands {commands:.2f} s"
    assert whole < RATIO * commands, f"{whole:.2f} s; the plain commands {commands:.2f} s"
