"""The subflows between gateways, as the kernel lists them.

h1 - gw1 ==a,b==+            +==a,b== gw2 - h2        `five_branches`: 4 subflows a pair
h3 - gw3 ==a,b==+  internet  +==a,b== gw4 - h4
                +            +==a,b== gw5 - h5

h0 - gw0 ==a,b,c== internet ==a,b,c,d,e== gw15 - h15  `wide`: 15 subflows
"""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

from hawser.driver.local import LocalLab
from hawser.node.netns import NamespaceNode
from hawser.overlay.lab import NetworkPlan, network
from hawser.overlay.lab.plan import GatewayDaemon
from hawser.spec import load
from lab import ROOT
from lab.waiting import until

WORKFLOW = ROOT / "workflows" / "five-branches.yaml"

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


def five_branches() -> NetworkPlan:
    """Five branches, each pair of which has four paths."""
    workflow = load(str(WORKFLOW), lambda name: Path(name).read_bytes())
    return network(workflow.variants[0].scenario)


def wide() -> NetworkPlan:
    """Two branches with fifteen paths."""
    return network(load("wide.yaml", lambda _: WIDE.encode()).variants[0].scenario)


def check_subflows(lab: LocalLab, plan: NetworkPlan) -> None:
    """Every pair of gateways gets a subflow on every path, and no other."""
    gateways = (daemon.config for daemon in plan.daemons if isinstance(daemon, GatewayDaemon))
    configs = {config.id: config for config in gateways}
    for lower, higher in combinations(sorted(configs), 2):
        peer = next(p for p in configs[lower].peers if p.id == higher)
        wanted = sorted((str(path.local), str(path.remote)) for path in peer.groups[0].paths)
        port = 0x1000 * higher
        node = lab.nodes[f"gw{lower}"]
        until(
            lambda node=node, port=port, wanted=wanted: subflows(node, port) == wanted,
            f"subflows of branches {lower} and {higher}: {wanted}",
        )


def subflows(node: NamespaceNode, port: int) -> list[tuple[str, str]]:
    """Addresses of the connections to a port."""
    command = ["ss", "-Htn", "state", "established", f"( dport = :{port} )"]
    ends = [line.split()[2:4] for line in node.run(command, timeout=60).stdout.splitlines()]
    return sorted((a.rpartition(":")[0], b.rpartition(":")[0]) for a, b in ends)
