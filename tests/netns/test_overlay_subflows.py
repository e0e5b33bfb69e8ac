"""What the kernel makes of the plan's MPTCP endpoints.

    gw1, gw2, gw3, gw4, gw5, two WAN ports each, joined by one internet

Between every pair of them a connection gets one subflow on each pair of WAN ports, no more and no
less, also where a gateway connects to some and listens to others.
"""

from __future__ import annotations

import json
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

LISTEN = """
import socket, sys
servers = []
for address in sys.argv[2:]:
    server = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP)
    server.bind((address, int(sys.argv[1])))
    server.listen()
    servers.append(server)
peer, _ = servers[0].accept()
while data := peer.recv(65536):
    peer.sendall(data)
"""

CONNECT = """
import json, socket, subprocess, sys, time
local, remote, port, wanted = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
stream = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP)
stream.bind((local, 0))
stream.connect((remote, port))
def pairs():
    command = ["ss", "-Htn", "state", "established", f"( dport = :{port} )"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    ends = [line.split()[2:4] for line in lines]  # 198.18.0.10%b:34567, 198.18.0.19:53280
    return [(a.rpartition(":")[0].partition("%")[0], b.rpartition(":")[0]) for a, b in ends]
deadline = time.monotonic() + 5
while len(pairs()) < wanted and time.monotonic() < deadline:
    stream.sendall(b"x" * 1000)
    stream.recv(65536)
    time.sleep(0.05)
time.sleep(0.3)  # for a subflow too many
print(json.dumps(pairs()))
"""


@pytest.mark.root
def test_every_pair_of_gateways_has_a_subflow_on_every_path(
    deploy: Callable[[NetworkPlan], LocalLab],
) -> None:
    plan = network(load(str(WORKFLOW), lambda name: Path(name).read_bytes()).variants[0].scenario)
    lab = deploy(plan.model_copy(update={"daemons": ()}))
    configs: dict[int, Any] = {daemon.config["id"]: daemon.config for daemon in plan.daemons}
    for lower, higher in combinations(sorted(configs), 2):
        peer = next(p for p in configs[lower]["peers"] if p["id"] == higher)
        wanted = [(path["local"], path["remote"]) for path in peer["groups"][0]["paths"]]
        nodes = lab.nodes[f"gw{lower}"], lab.nodes[f"gw{higher}"]
        port = 0xD000 + 16 * higher + lower
        assert sorted(_subflows(*nodes, wanted, port)) == sorted(wanted)


def _subflows(
    client: NamespaceNode, server: NamespaceNode, wanted: list[tuple[str, str]], port: int
) -> list[tuple[str, str]]:
    local, remote = wanted[0]
    remotes = dict.fromkeys(pair[1] for pair in wanted)
    listener = server.start(["python3", "-c", LISTEN, str(port), *remotes])
    try:
        _wait_listening(server, port, len(remotes))
        command = ["python3", "-c", CONNECT, local, remote, str(port), str(len(wanted))]
        found = json.loads(client.run(command, timeout=20).stdout)
    finally:
        listener.stop()
    return [(a, b) for a, b in found]


def _wait_listening(node: NamespaceNode, port: int, count: int) -> None:
    until = time.monotonic() + 5
    while node.run(["ss", "-Hltn"], timeout=5).stdout.count(f":{port} ") < count:
        assert time.monotonic() < until, "nobody listens"
        time.sleep(0.05)
