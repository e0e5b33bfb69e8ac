"""Elements of a cloud with real traffic: delays, caps, and flows spread over several tunnels.

 client -- west -- tgw-west -- vpn-a1 == tunnel == vpn-b1 -- tgw-east -- east -- server
                          \\-- vpn-a2 == tunnel == vpn-b2 --/

(lab/plans/cloud.py). Packets of a tunnel are captured at vpn-a1's `out`.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from documents import Document
from hawser.driver.local import LocalLab
from hawser.driver.parts import tunnels
from hawser.overlay.lab.plan import NetworkPlan
from lab.plans.cloud import (
    BACKBONE,
    INTERNET,
    PEERING,
    RTT_MS,
    TUNNEL_MBIT_S,
    planned,
    vpn,
)
from lab.traffic.echoes import echoes
from lab.traffic.nodes import transfer

pytestmark = pytest.mark.root
Deploy = Callable[[NetworkPlan], LocalLab]


@pytest.mark.parametrize(
    ("elements", "times"),
    [(PEERING, 1.0), (BACKBONE, 1.0), (INTERNET, 2.5)],
    ids=["peering", "transit-gateways", "internet-gateways"],
)
def test_regions_are_as_far_apart_as_their_connection_makes_them(
    deploy: Deploy, elements: Document, times: float
) -> None:
    plan = planned(elements)
    lab = deploy(plan)
    found = echoes(lab.nodes["client"].namespace, str(plan.addresses["server"]), 5)
    assert len(found) == 5
    assert found[0] >= RTT_MS * times - 0.1


def test_flows_are_spread_over_gre_tunnels(deploy: Deploy) -> None:
    """One connection has one tunnel, and not more than its cap; sixteen use several at once."""
    plan = planned(vpn("gre", 4))
    lab = deploy(plan)
    client, server = lab.nodes["client"], lab.nodes["server"]
    target = str(plan.addresses["server"])
    capture = lab.nodes["vpn-a1"].start(
        ["tcpdump", "-nni", "out", "-c", "3", "--immediate-mode", "ip proto 47"]
    )
    assert len(echoes(client.namespace, target, 3)) == 3

    before = _carried(lab)
    one = transfer(client, server, target, "4M")
    used = [now - then for now, then in zip(_carried(lab), before, strict=True)]
    assert one["bits_per_second"] <= TUNNEL_MBIT_S * 1e6
    assert sorted(used)[-2] < 500_000 < max(used)  # the control connection may take another

    before = _carried(lab)
    transfer(client, server, target, "8M", "-P", "16")
    used = [now - then for now, then in zip(_carried(lab), before, strict=True)]
    assert sum(each > 200_000 for each in used) >= 2
    assert sum(used) > 6_000_000
    assert "GREv0" in capture.stop().stdout or not used[0]


def _carried(lab: LocalLab) -> list[int]:
    return [
        int(lab.nodes[f"vpn-a{number}"].counters()["out"]["tx_bytes"]) for number in range(1, 5)
    ]


def test_several_ipsec_tunnels_carry_traffic_together(deploy: Deploy) -> None:
    plan = planned(vpn("strongswan", 2))
    lacks = tuple(tunnels.missing(plan))
    if lacks:
        pytest.skip(lacks[0])
    lab = deploy(plan)
    target = str(plan.addresses["server"])
    capture = lab.nodes["vpn-b1"].start(["tcpdump", "-nni", "out", "--immediate-mode", "ip"])
    found = transfer(lab.nodes["client"], lab.nodes["server"], target, "2M", "-P", "8")
    assert found["bytes"] > 200_000
    seen = [line for line in capture.stop().stdout.splitlines() if " IP " in line]
    assert all(".4500" in line for line in seen)
