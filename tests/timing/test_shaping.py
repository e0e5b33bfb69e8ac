"""Rates, priorities and cross traffic of the kernel's shapers, exactly.

a: e 10.0.0.1 --[shaper]-- x -- e 10.0.0.2 :b       (`pair` of lab/plans/small.py)

gw1.a - gw2.a over bottleneck x1, 20 Mbit/s, with cross traffic on it
                                                    (lab/plans/bottleneck.py)
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from ipaddress import IPv4Network

import pytest

from hawser.driver.local import LocalLab
from hawser.overlay.config.shaping import class_id
from hawser.overlay.lab.plan import ClassPlan, NetworkPlan
from hawser.spec.units import Rate
from hawser.spec.workflow import Change
from lab.plans.bottleneck import plan
from lab.plans.small import FRAME, LEVELS, MBIT, A, B, pair, whole
from lab.traffic.nodes import class_rate, flood, iperf_server, ping, received_rate, tcp, udp_flood
from lab.waiting import PATIENCE, until

pytestmark = pytest.mark.root

Deploy = Callable[[NetworkPlan], LocalLab]
SHARE = 1448 / FRAME
"""Payload of a full frame of TCP."""


@pytest.mark.parametrize("mbit", [1, 10, 100])
def test_rate_is_right_within_one_percent(deploy: Deploy, mbit: int) -> None:
    lab = deploy(pair(whole(mbit * MBIT)))
    with udp_flood(lab.nodes["a"], lab.nodes["b"], B, 1.3 * mbit * MBIT):
        assert received_rate(lab.nodes["b"], "e", 2) == pytest.approx(mbit * MBIT, rel=0.01)


def test_tcp_fills_the_rate(deploy: Deploy) -> None:
    lab = deploy(pair(whole(20 * MBIT)))
    found = tcp(lab.nodes["a"], lab.nodes["b"], B, 2)["bits_per_second"]
    assert found == pytest.approx(20 * MBIT * SHARE, rel=0.02)


def test_tcp_of_large_packets_into_a_short_queue(deploy: Deploy) -> None:
    lab = deploy(pair(whole(10 * MBIT, 4.5 * FRAME), offload=True))
    assert tcp(lab.nodes["a"], lab.nodes["b"], B, 2)["bits_per_second"] > 3 * MBIT


def test_classes_share_the_whole_and_keep_to_their_own(deploy: Deploy) -> None:
    """Sources of at most 10 Mbit/s into 12: alone 10, two together a half each."""
    sources = [A, "10.0.0.11", "10.0.0.12"]
    classes = [
        ClassPlan(name=f"path:{n}:forward", source=IPv4Network(source), rate=Rate(10 * MBIT))
        for n, source in enumerate(sources)
    ]
    lab = deploy(pair(*classes, rate=12 * MBIT, more=tuple(f"{s}/24" for s in sources[1:])))
    a, b = lab.nodes["a"], lab.nodes["b"]
    with udp_flood(a, b, B, 20 * MBIT, "-B", A):
        assert class_rate(a, "path:0:forward", 1.5) == pytest.approx(10 * MBIT, rel=0.02)
        command = ["iperf3", "-u", "-c", B, "-p", "5202", "-b", "20M", "-l", "1472", "-t", "0"]
        server = b.start(["iperf3", "-s", "-p", "5202"])
        until(lambda: "5202" in b.run(["ss", "-ltn"], timeout=PATIENCE).stdout)
        client = a.start([*command, "-B", sources[1]])
        until(lambda: a.counters()["path:1:forward"]["packets"] > 100)
        rate = class_rate(a, "path:1:forward", 1.5)
        client.stop()
        server.stop()
    assert rate == pytest.approx(6 * MBIT, rel=0.05)


def test_rate_changes_while_packets_flow(deploy: Deploy) -> None:
    lab = deploy(pair(whole(10 * MBIT)))
    with udp_flood(lab.nodes["a"], lab.nodes["b"], B, 60 * MBIT):
        for mbit in (30, 2):
            lab.apply("link:x", Change(rate=Rate(mbit * MBIT)))
            assert received_rate(lab.nodes["b"], "e", 1.5) == pytest.approx(mbit * MBIT, rel=0.03)


def test_a_link_without_limits_can_get_one(deploy: Deploy) -> None:
    lab = deploy(pair())
    lab.apply("link:x", Change(rate=Rate(5 * MBIT)))
    with udp_flood(lab.nodes["a"], lab.nodes["b"], B, 10 * MBIT):
        assert received_rate(lab.nodes["b"], "e", 2) == pytest.approx(5 * MBIT, rel=0.02)


@pytest.fixture
def levels(deploy: Deploy) -> LocalLab:
    """A port of 10 Mbit/s in three levels of priority."""
    made = deploy(pair(*LEVELS, rate=10 * MBIT))
    assert ping(made.nodes["a"], B) == 3  # neighbours are resolved from here on
    return made


def rates(lab: LocalLab) -> list[float]:
    """Rate of each level, Mbit/s."""
    with ThreadPoolExecutor() as pool:
        found = [pool.submit(class_rate, lab.nodes["a"], level.name, 1.5) for level in LEVELS]
        return [each.result() / MBIT for each in found]


def mark(level: int) -> int | None:
    """Priority of packets that names a level's class."""
    return class_id(level) if LEVELS[level].marked else None


def test_what_is_urgent_goes_first_and_the_last_gets_what_is_left(levels: LocalLab) -> None:
    a = levels.nodes["a"]
    with flood(a, B, mark(2), 8 * MBIT):
        assert rates(levels) == pytest.approx([0, 0, 8], rel=0.05, abs=0.1)
        with flood(a, B, mark(1), 6 * MBIT):
            time.sleep(0.2)
            assert rates(levels) == pytest.approx([0, 6, 4], rel=0.05, abs=0.1)
            with flood(a, B, mark(0), 7 * MBIT):
                time.sleep(0.2)
                urgent, second, rest = rates(levels)
    assert urgent == pytest.approx(7, rel=0.05)
    assert second == pytest.approx(3, rel=0.1)
    assert rest < 0.2
    counters = a.counters()
    assert counters[LEVELS[0].name]["drop_queue"] == 0
    assert counters[LEVELS[2].name]["drop_queue"] > 0


def test_all_levels_go_down_and_come_back(levels: LocalLab) -> None:
    with ExitStack() as floods:
        for level in range(3):
            floods.enter_context(flood(levels.nodes["a"], B, mark(level), 2 * MBIT))
        time.sleep(0.3)
        levels.apply("link:x", Change(up=False))
        time.sleep(0.2)  # queued packets leave
        assert rates(levels) == [0, 0, 0]
        levels.apply("link:x", Change(up=True))
        assert rates(levels) == pytest.approx([2, 2, 2], rel=0.1)
    counters = levels.nodes["a"].counters()
    for level in LEVELS:
        assert counters[level.name]["drop_down"] > 50
        assert counters[level.name]["drop_queue"] == 0


def test_the_rate_of_all_changes_while_packets_flow(levels: LocalLab) -> None:
    a, second = levels.nodes["a"], LEVELS[1].name
    with flood(a, B, mark(1), 30 * MBIT):
        levels.apply("link:x", Change(rate=Rate(20 * MBIT)))
        until(lambda: class_rate(a, second, 0.5) > 19 * MBIT, seconds=10)
        assert class_rate(a, second, 1) == pytest.approx(20 * MBIT, rel=0.03)


def goodput(lab: LocalLab, source: str, target: str) -> float:
    """TCP between two ports, Mbit/s on the wire."""
    client, server = lab.nodes[source.partition(".")[0]], lab.nodes[target.partition(".")[0]]
    ends = lab.plan.addresses
    options = (str(ends[target]), "-B", str(ends[source]))
    with iperf_server(server):
        command = ["iperf3", "--json", "-t", "3", "-O", "1", "-c", *options]
        report = json.loads(client.run(command, timeout=PATIENCE).stdout)
    return float(report["end"]["sum_received"]["bits_per_second"]) / MBIT / SHARE


def test_only_what_passes_a_bottleneck_is_limited_by_its_rate(deploy: Deploy) -> None:
    lab = deploy(plan())
    assert goodput(lab, "gw1.a", "gw2.a") == pytest.approx(20, rel=0.03)
    assert goodput(lab, "gw2.a", "gw1.a") == pytest.approx(12, rel=0.03)
    assert goodput(lab, "gw1.b", "gw2.b") == pytest.approx(60, rel=0.03)
    assert goodput(lab, "gw1.a", "gw2.b") == pytest.approx(60, rel=0.03)
    counters = lab.nodes["internet"].counters()["bottleneck:x1:forward"]
    assert counters["bytes"] > 4 * 20 * MBIT / 8 * 0.9
    lab.apply("bottleneck:x1", Change(rate=Rate(5 * MBIT)))
    assert goodput(lab, "gw1.a", "gw2.a") == pytest.approx(5, rel=0.05)


def test_a_constant_flow_leaves_exactly_the_rest(deploy: Deploy) -> None:
    lab = deploy(plan("topology.internet.bottlenecks.x1.cross_traffic={udp: 16 Mbit/s}"))
    flow = "bottleneck:x1:forward:cross_traffic"
    assert class_rate(lab.nodes["internet"], flow, 2) == pytest.approx(16 * MBIT, rel=0.01)
    assert goodput(lab, "gw1.a", "gw2.a") == pytest.approx(4, rel=0.05)
    assert goodput(lab, "gw2.a", "gw1.a") == pytest.approx(12, rel=0.03)
    assert lab.nodes["internet"].counters()[flow]["drop_queue"] == 0
    assert lab.faults() == ()


def test_connections_take_their_share_in_the_direction_they_are_for(deploy: Deploy) -> None:
    more = "topology.internet.bottlenecks.x1.reverse={rate: 12 Mbit/s, cross_traffic: {tcp: 3}}"
    lab = deploy(plan(more))
    assert class_rate(lab.nodes["backbone"], "bottleneck:x1:reverse", 1) > 11 * MBIT
    assert 1 < goodput(lab, "gw2.a", "gw1.a") < 10.5
    # Its acknowledgements wait in the reverse queue. 5 if it had to share its own.
    assert goodput(lab, "gw1.a", "gw2.a") > 10
    assert lab.faults() == ()


def test_connections_keep_a_queue_full(deploy: Deploy) -> None:
    x1, others = "topology.internet.bottlenecks.x1", "cross_traffic={tcp: 40}"
    narrow = f"{x1}={{between: [[gw1.a, gw2.a]], rate: 10 Mbit/s, queue: 15 kB}}"
    lab = deploy(plan(narrow, f"{x1}.{others}", f"{x1}.reverse.{others}"))
    ways = (("internet", "forward"), ("backbone", "reverse"))
    with ThreadPoolExecutor() as pool:
        found = [
            pool.submit(class_rate, lab.nodes[node], f"bottleneck:x1:{way}", 11)
            for node, way in ways
        ]
        assert all(each.result() > 0.9 * 10 * MBIT for each in found)
