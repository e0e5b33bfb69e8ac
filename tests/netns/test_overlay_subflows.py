"""The subflows between five gateways, two WAN ports each, joined by one internet.

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
    lab = deploy(plan)
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
    ends = [line.split()[2:4] for line in node.run(command, timeout=5).stdout.splitlines()]
    return sorted((a.rpartition(":")[0], b.rpartition(":")[0]) for a, b in ends)
