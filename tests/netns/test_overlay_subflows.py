"""The subflows between gateways that one internet joins.

Between every pair of them the connection gets one subflow on each pair of WAN ports, no more and no
less, also where a gateway connects to some and listens to others.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from driver_traffic import ping

from hawser.driver.local import LocalLab
from hawser.node.netns import NamespaceNode
from hawser.overlay import NetworkPlan, network
from hawser.spec import load

WORKFLOW = Path(__file__).parents[2] / "workflows" / "five-branches.yaml"


@pytest.mark.root
def test_every_pair_of_gateways_has_a_subflow_on_every_path(
    deploy: Callable[[NetworkPlan], LocalLab],
) -> None:
    plan = network(load(str(WORKFLOW), lambda name: Path(name).read_bytes()).variants[0].scenario)
    check(deploy(plan), plan)


WIDE = """
hawser: 1
name: wide
title: The lowest and the highest branch, and as many subflows as their labels tell apart
topology:
  nodes: [h0, h15, gw0, gw15]
  links:
    lan0: {ends: [h0.lan, gw0.lan]}
    lan15: {ends: [h15.lan, gw15.lan]}
  internet:
    ports:
      {gw0.a: {}, gw0.b: {}, gw0.c: {}, gw15.a: {}, gw15.b: {}, gw15.c: {}, gw15.d: {}, gw15.e: {}}
overlay:
  encryption: none
  switch: bpf
  branches:
    b0: {id: 0, gateway: gw0, wan: [a, b, c], lan: lan, prefix: 10.0.0.0/24}
    b15: {id: 15, gateway: gw15, wan: [a, b, c, d, e], lan: lan, prefix: 10.15.0.0/24}
measurements:
  echoes: {probe: ping, from: h0, to: h15}
"""


@pytest.mark.root
def test_branch_0_has_fifteen_subflows(deploy: Callable[[NetworkPlan], LocalLab]) -> None:
    plan = network(load("wide.yaml", lambda _: WIDE.encode()).variants[0].scenario)
    lab = deploy(plan)
    check(lab, plan)
    assert ping(lab.nodes["h0"], str(lab.plan.addresses["h15"])) == 3


def check(lab: LocalLab, plan: NetworkPlan) -> None:
    """Every pair of gateways has a subflow on every path, soon."""
    configs: dict[int, Any] = {daemon.config["id"]: daemon.config for daemon in plan.daemons}
    for lower, higher in combinations(sorted(configs), 2):
        peer = next(p for p in configs[lower]["peers"] if p["id"] == higher)
        wanted = sorted((path["local"], path["remote"]) for path in peer["groups"][0]["paths"])
        port = 0x1000 * higher
        deadline = time.monotonic() + 5
        while (found := _subflows(lab.nodes[f"gw{lower}"], port)) != wanted:
            assert time.monotonic() < deadline, f"{lower} to {higher}: {found}, not {wanted}"
            time.sleep(0.05)


def _subflows(node: NamespaceNode, port: int) -> list[tuple[str, str]]:
    """Addresses of the connections to a port."""
    command = ["ss", "-Htn", "state", "established", f"( dport = :{port} )"]
    ends = [line.split()[2:4] for line in node.run(command, timeout=60).stdout.splitlines()]
    return sorted((a.rpartition(":")[0], b.rpartition(":")[0]) for a, b in ends)
