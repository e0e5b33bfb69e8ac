"""Bottlenecks inside the internet, with traffic of others on them.

gw1 ==a,b== internet ==a,b== gw2        a to a passes a bottleneck of 20 Mbit/s, b to b does not
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from driver_plans import MBIT
from driver_traffic import class_rate
from waiting import until

from hawser.driver.local import LocalLab
from hawser.node.base import Node
from hawser.overlay import NetworkPlan, network
from hawser.spec import load
from hawser.spec.units import Rate
from hawser.spec.workflow import Change

pytestmark = pytest.mark.root

Deploy = Callable[[NetworkPlan], LocalLab]
PAYLOAD = 1448 / 1514
FILE = """
hawser: 1
name: bottleneck
title: Bottleneck
topology:
  nodes: [gw1, gw2]
  internet:
    ports: {gw1.a: {}, gw1.b: {}, gw2.a: {}, gw2.b: {}}
    path: {rate: 60 Mbit/s}
    bottlenecks:
      x1: {between: [[gw1.a, gw2.a]], rate: 20 Mbit/s, reverse: {rate: 12 Mbit/s}}
measurements: {t: {probe: ping, from: gw1.a, to: gw2.a}}
"""


def plan(*overrides: str) -> NetworkPlan:
    workflow = load("x.yaml", lambda _: FILE, overrides)
    return network(workflow.variants[0].scenario)


def goodput(lab: LocalLab, source: str, target: str) -> float:
    """TCP between two ports, Mbit/s on the wire."""
    client, server = lab.nodes[source.partition(".")[0]], lab.nodes[target.partition(".")[0]]
    ends = lab.plan.addresses
    options = (str(ends[target]), "-B", str(ends[source]))
    done = _tcp(client, server, options)
    return float(done["bits_per_second"]) / MBIT / PAYLOAD


def _tcp(client: Node, server: Node, options: tuple[str, ...]) -> dict[str, Any]:
    running = server.start(["iperf3", "-s", "-1"])
    try:
        until(lambda: "5201" in server.run(["ss", "-ltn"], timeout=60).stdout)
        command = ["iperf3", "--json", "-t", "3", "-O", "1", "-c", *options]
        report = json.loads(client.run(command, timeout=60).stdout)
    finally:
        running.stop()
    result: dict[str, Any] = report["end"]["sum_received"]
    return result


@pytest.mark.measures
def test_only_what_passes_it_is_limited_each_way_by_its_own_rate(deploy: Deploy) -> None:
    lab = deploy(plan())
    assert goodput(lab, "gw1.a", "gw2.a") == pytest.approx(20, rel=0.03)
    assert goodput(lab, "gw2.a", "gw1.a") == pytest.approx(12, rel=0.03)
    assert goodput(lab, "gw1.b", "gw2.b") == pytest.approx(60, rel=0.03)
    assert goodput(lab, "gw1.a", "gw2.b") == pytest.approx(60, rel=0.03)
    counters = lab.nodes["internet"].counters()["bottleneck:x1:forward"]
    assert counters["bytes"] > 4 * 20 * MBIT / 8 * 0.9
    lab.apply("bottleneck:x1", Change(rate=Rate(5 * MBIT)))
    assert goodput(lab, "gw1.a", "gw2.a") == pytest.approx(5, rel=0.05)


@pytest.mark.measures
def test_a_constant_flow_leaves_exactly_the_rest(deploy: Deploy) -> None:
    lab = deploy(plan("topology.internet.bottlenecks.x1.background={udp: 16 Mbit/s}"))
    flow = "bottleneck:x1:forward:background"
    assert class_rate(lab.nodes["internet"], flow, 2) == pytest.approx(16 * MBIT, rel=0.01)
    assert goodput(lab, "gw1.a", "gw2.a") == pytest.approx(4, rel=0.05)
    assert goodput(lab, "gw2.a", "gw1.a") == pytest.approx(12, rel=0.03)
    assert lab.nodes["internet"].counters()[flow]["drop_queue"] == 0
    assert lab.faults() == ()


@pytest.mark.measures
def test_connections_take_their_share_in_the_direction_they_are_for(deploy: Deploy) -> None:
    more = "topology.internet.bottlenecks.x1.reverse={rate: 12 Mbit/s, background: {tcp: 3}}"
    lab = deploy(plan(more))
    assert class_rate(lab.nodes["backbone"], "bottleneck:x1:reverse", 1) > 11 * MBIT
    assert 1 < goodput(lab, "gw2.a", "gw1.a") < 10.5
    # Its acknowledgements wait in the other direction's queue. 5 if it had to share its own.
    assert goodput(lab, "gw1.a", "gw2.a") > 10
    assert lab.faults() == ()


def test_connections_outlast_a_queue_that_is_always_full(deploy: Deploy) -> None:
    """Their hosts are not told what the queue drops: else they probe it 15 times and give up."""
    x1, tcp = "topology.internet.bottlenecks.x1", "background={tcp: 40}"
    narrow = f"{x1}={{between: [[gw1.a, gw2.a]], rate: 10 Mbit/s, queue: 15 kB}}"
    lab = deploy(plan(narrow, f"{x1}.{tcp}", f"{x1}.reverse.{tcp}"))
    end = time.monotonic() + 11
    while time.monotonic() < end:
        assert lab.faults() == ()
        time.sleep(0.5)
    for node, way in (("internet", "forward"), ("backbone", "reverse")):
        counters = lab.nodes[node].counters()[f"bottleneck:x1:{way}"]
        assert counters["drop_queue"] > 500
        assert counters["bytes"] > 11 * 10 * MBIT / 8 * 0.9


def test_traffic_that_ended_is_told(deploy: Deploy) -> None:
    lab = deploy(plan("topology.internet.bottlenecks.x1.background={tcp: 2}"))
    found = [pid for pid in lab.nodes["others"].processes() if _program(pid) == "iperf3"]
    os.kill(found[0], signal.SIGKILL)
    until(lambda: lab.faults() != ())
    assert lab.faults()[0].startswith("background traffic: background-x1-forward ended")


def _program(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()


def test_nothing_is_left_of_it(deploy: Deploy) -> None:
    lab = deploy(plan("topology.internet.bottlenecks.x1.background={udp: 5 Mbit/s}"))
    pids = [*lab.nodes["internet"].processes(), *lab.nodes["backbone"].processes()]
    assert len(pids) == 2
    lab.destroy()
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
