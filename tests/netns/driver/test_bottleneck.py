"""Bottlenecks inside the internet limit the paths that pass them, beside cross traffic too.

gw1.a ==+             +== gw2.a        gw1.a - gw2.a crosses x1: 20 Mbit/s, 12 Mbit/s back
        | internet    |                every other pair stays in the internet
gw1.b ==+   |   |     +== gw2.b
          x1|   |back
            |   |
          backbone                     (drawn with addresses in lab/plans/bottleneck.py)
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from hawser.driver.local import LocalLab
from hawser.overlay.lab import NetworkPlan
from hawser.spec.units import Rate
from hawser.spec.workflow import Change
from lab.plans.bottleneck import plan
from lab.plans.small import FRAME, MBIT
from lab.traffic.counted import deliver, kernel_priority, kernel_rate, limit
from lab.waiting import until

pytestmark = pytest.mark.root

Deploy = Callable[[NetworkPlan], LocalLab]
FORWARD, REVERSE = "bottleneck:x1:forward", "bottleneck:x1:reverse"


def over(lab: LocalLab, source: str, target: str, size: int) -> None:
    """Send bytes over TCP from one port to another, and check that they all came."""
    client, server = lab.nodes[source.partition(".")[0]], lab.nodes[target.partition(".")[0]]
    ends = lab.plan.addresses
    deliver(client, server, str(ends[target]), size, str(ends[source]))


def data(lab: LocalLab, node: str, name: str) -> int:
    """Bytes of what a class has let through, if they are more than acknowledgements."""
    counters = lab.nodes[node].counters()[name]
    return counters["bytes"] if counters["bytes"] > 200 * counters["packets"] else 0


def test_only_what_passes_it_is_limited_each_way_by_its_own_rate(deploy: Deploy) -> None:
    lab = deploy(plan())
    internet, backbone = lab.nodes["internet"], lab.nodes["backbone"]
    assert kernel_rate(internet, FORWARD) == 20 * MBIT
    assert kernel_rate(backbone, REVERSE) == 12 * MBIT
    size = 1_000_000
    for pair in (("gw1.b", "gw2.b"), ("gw1.a", "gw2.b"), ("gw2.b", "gw1.b")):
        over(lab, *pair, size)
    assert internet.counters()[FORWARD]["packets"] == 0
    assert backbone.counters()[REVERSE]["packets"] == 0
    forward, reverse = limit(internet, FORWARD), limit(backbone, REVERSE)
    over(lab, "gw1.a", "gw2.a", size)
    assert forward.bytes() > size
    assert data(lab, "backbone", REVERSE) == 0
    forward.holds(20 * MBIT)
    answers = limit(internet, FORWARD)
    over(lab, "gw2.a", "gw1.a", size)
    assert reverse.bytes() > size
    assert answers.bytes() < size / 5
    reverse.holds(12 * MBIT)
    lab.apply("bottleneck:x1", Change(rate=Rate(5 * MBIT)))
    assert kernel_rate(internet, FORWARD) == 5 * MBIT
    forward = limit(internet, FORWARD)
    over(lab, "gw1.a", "gw2.a", size // 2)
    forward.holds(5 * MBIT)


def test_a_constant_flow_leaves_exactly_the_rest(deploy: Deploy) -> None:
    lab = deploy(plan("topology.internet.bottlenecks.x1.cross_traffic={udp: 16 Mbit/s}"))
    internet = lab.nodes["internet"]
    flow, paths = f"{FORWARD}:cross_traffic", f"{FORWARD}:paths"
    assert kernel_rate(internet, paths, whole=True) == 20 * MBIT
    assert kernel_priority(internet, flow) < kernel_priority(internet, paths)
    together, rest = limit(internet, flow, paths), limit(internet, paths)
    over(lab, "gw1.a", "gw2.a", 1_000_000)
    assert rest.bytes() > 1_000_000
    over(lab, "gw2.a", "gw1.a", 1_000_000)
    together.holds(20 * MBIT)
    # The flow loses nothing and hardly waits: everything sent so far arrives.
    state = json.loads((lab.directory / "cross-traffic-internet.json").read_text())
    until(lambda: internet.counters()[flow]["packets"] >= state["due"] - state["unsent"])
    counters = internet.counters()[flow]
    assert counters["drop_queue"] == 0
    assert counters["bytes"] == counters["packets"] * FRAME
    assert not any("ended" in fault for fault in lab.faults())


def test_connections_take_their_share_in_the_direction_they_are_for(deploy: Deploy) -> None:
    more = "topology.internet.bottlenecks.x1.reverse={rate: 12 Mbit/s, cross_traffic: {tcp: 3}}"
    lab = deploy(plan(more))
    backbone = lab.nodes["backbone"]
    reverse = limit(backbone, REVERSE)
    for _ in range(2):
        counted = limit(backbone, REVERSE)
        until(lambda now=counted: now.bytes() > 300_000)  # without anything of ours
        over(lab, "gw2.a", "gw1.a", 500_000)
    reverse.holds(12 * MBIT)
    # In the other direction there are only their acknowledgements.
    assert lab.nodes["internet"].counters()[FORWARD]["packets"] > 100
    assert data(lab, "internet", FORWARD) == 0
    forward = limit(lab.nodes["internet"], FORWARD)
    over(lab, "gw1.a", "gw2.a", 1_000_000)
    assert forward.bytes() > 1_000_000
    forward.holds(20 * MBIT)
    assert lab.faults() == ()


def test_connections_outlast_a_queue_that_is_always_full(deploy: Deploy) -> None:
    """Their hosts are not told what the queue drops: else they probe it 15 times and give up."""
    x1, tcp = "topology.internet.bottlenecks.x1", "cross_traffic={tcp: 40}"
    narrow = f"{x1}={{between: [[gw1.a, gw2.a]], rate: 10 Mbit/s, queue: 15 kB}}"
    lab = deploy(plan(narrow, f"{x1}.{tcp}", f"{x1}.reverse.{tcp}"))
    ways = {"internet": FORWARD, "backbone": REVERSE}

    def counters(node: str) -> dict[str, int]:
        assert lab.faults() == ()
        return dict(lab.nodes[node].counters()[ways[node]])

    # What the rate lets through in 11 s: an overfull queue lets connections give up after 7.5 s.
    for node in ways:
        until(lambda where=node: counters(where)["bytes"] > 11 * 10 * MBIT / 8)
        until(lambda where=node: counters(where)["drop_queue"] > 500)


def test_traffic_that_ended_is_told(deploy: Deploy) -> None:
    lab = deploy(plan("topology.internet.bottlenecks.x1.cross_traffic={tcp: 2}"))
    found = [each.pid for each in lab.nodes["others"].programs() if each.name == "iperf3"]
    os.kill(found[0], signal.SIGKILL)
    until(lambda: lab.faults() != ())
    assert lab.faults()[0].startswith("cross traffic: cross-traffic-x1-forward ended")


def test_nothing_is_left_of_it(deploy: Deploy) -> None:
    lab = deploy(plan("topology.internet.bottlenecks.x1.cross_traffic={udp: 5 Mbit/s}"))
    names = ("internet", "backbone")
    pids = [each.pid for name in names for each in lab.nodes[name].programs()]
    assert len(pids) == 2
    lab.destroy()
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
