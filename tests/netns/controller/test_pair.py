"""A branch with two gateways is reached over either, and stays reached when one is gone.

The topology is that of tests/lab/controller/pair.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.controller.network import Deployment
from lab.controller.pair import FIRST, OTHER, SECOND, groups_up, joined, leave_by, silent
from lab.waiting import until

pytestmark = [pytest.mark.root, pytest.mark.slow]

FLOWS = 8
"""Enough of them for both groups to get some."""


def test_a_branch_stays_reached_when_one_of_its_gateways_is_gone(tmp_path: Path) -> None:
    with Deployment(tmp_path, (1, 2, 3)) as network:
        joined(network)
        assert set(network.controller.gateways()) == {"b1", "b1/2", "b2"}
        for gateway in ("10.1.0.1", "10.1.0.2"):
            leave_by(network, gateway)
            until(lambda: flows_answered(network) == FLOWS, f"all flows pass, back by {gateway}")
        silent(network, FIRST)
        until(lambda: groups_up(network) == {0: False, 58: True}, "the first is silent")
        until(lambda: flows_answered(network) == FLOWS, "all flows take the second")
        network.branches[FIRST].work()
        until(lambda: groups_up(network) == {0: True, 58: True}, "the first is back")
        leave_by(network, "10.1.0.1")
        silent(network, SECOND)
        until(lambda: groups_up(network) == {0: True, 58: False}, "the second is silent")
        until(lambda: flows_answered(network) == FLOWS, "all flows take the first")
        reached = network.controller.gateways()["b2"]["peers"]
        assert reached == {"b1": True}, "the branch is reached all the time"


def flows_answered(network: Deployment) -> int:
    """Flows from b2 to the host that are answered: a ping is a flow of its own."""
    command = ("ping", "-c", "1", "-W", "2", "-I", "10.2.0.1", "10.1.0.5")
    answers = [network.lab.at(OTHER, *command, check=False) for _ in range(FLOWS)]
    return sum(" 1 received" in each for each in answers)
