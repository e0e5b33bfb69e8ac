"""The subflows between gateways that one internet joins.

Between every pair of them the connection gets one subflow on each pair of WAN ports, no more and no
less, also where a gateway connects to some and listens to others.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hawser.driver.local import LocalLab
from hawser.overlay.lab import NetworkPlan
from lab.plans.subflows import check_subflows, five_branches, wide
from lab.traffic.echoes import echoes


@pytest.mark.root
def test_every_pair_of_gateways_has_a_subflow_on_every_path(
    deploy: Callable[[NetworkPlan], LocalLab],
) -> None:
    plan = five_branches()
    check_subflows(deploy(plan), plan)


@pytest.mark.root
def test_branch_0_has_fifteen_subflows(deploy: Callable[[NetworkPlan], LocalLab]) -> None:
    plan = wide()
    lab = deploy(plan)
    check_subflows(lab, plan)
    assert len(echoes(lab.nodes["h0"].namespace, str(lab.plan.addresses["h15"]), 3)) == 3
