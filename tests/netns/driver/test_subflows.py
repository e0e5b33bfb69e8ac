"""Every pair of gateways gets one subflow on each pair of WAN ports, no more and no less.

   h1 -- gw1 ==a,b==+            +==a,b== gw2 -- h2           five branches, 4 subflows a pair
   h3 -- gw3 ==a,b==+  internet  +==a,b== gw4 -- h4
                    +            +==a,b== gw5 -- h5

   h0 -- gw0 ==a,b,c== internet ==a,b,c,d,e== gw15 -- h15    the highest branch number, 15 subflows

A gateway connects to branches of higher numbers and listens to those of lower ones.
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
