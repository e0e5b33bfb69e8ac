"""Rates, queues and changes of a running lab, with real traffic.

a --x-- b      a's port is shaped towards b
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Network

import pytest
from driver_plans import FRAME, MBIT, A, B, branches, pair, whole
from driver_traffic import burst, class_rate, ping, received_rate, tcp, udp_flood
from waiting import until

from hawser.driver.base import DriverError
from hawser.driver.local import LocalDriver, LocalLab
from hawser.overlay.plan import ClassPlan, NetworkPlan
from hawser.spec.units import Rate, Size
from hawser.spec.workflow import Change

pytestmark = pytest.mark.root

Deploy = Callable[[NetworkPlan], LocalLab]
NAME = "link:x:forward"


@pytest.mark.measures
@pytest.mark.parametrize("mbit", [1, 10, 100])
def test_rate_is_right_within_one_percent(deploy: Deploy, mbit: int) -> None:
    lab = deploy(pair(whole(mbit * MBIT)))
    with udp_flood(lab.nodes["a"], lab.nodes["b"], B, 1.3 * mbit * MBIT):
        assert received_rate(lab.nodes["b"], "e", 2) == pytest.approx(mbit * MBIT, rel=0.01)


@pytest.mark.measures
def test_tcp_fills_the_rate(deploy: Deploy) -> None:
    lab = deploy(pair(whole(20 * MBIT)))
    goodput = tcp(lab.nodes["a"], lab.nodes["b"], B, 2)["bits_per_second"]
    assert goodput == pytest.approx(20 * MBIT * 1448 / FRAME, rel=0.02)


def test_queue_counts_bytes_and_every_packet_is_accounted_for(deploy: Deploy) -> None:
    queue, frame = 20_000, 1000
    lab = deploy(pair(whole(0.05 * MBIT, queue)))
    assert ping(lab.nodes["a"], B) == 3  # neighbours are known from here on
    a = lab.nodes["a"]
    until(lambda: a.counters()[NAME]["backlog"] == 0)
    before, received = a.counters()[NAME], lab.nodes["b"].counters()["e"]["rx_packets"]
    burst(a, B, 100, frame - 42)
    during = a.counters()[NAME]
    assert queue - 2 * frame <= during["backlog"] <= queue  # one leaves every 160 ms
    accepted = during["packets"] - before["packets"] + during["backlog"] // frame
    assert accepted + during["drop_queue"] - before["drop_queue"] == 100
    # What fits: the queue, and the burst of two full frames that leaves at once.
    assert accepted == pytest.approx(queue / frame + 2 * FRAME / frame, abs=2)
    lab.apply("link:x", Change(rate=Rate(10 * MBIT)))
    until(lambda: a.counters()[NAME]["backlog"] == 0)
    assert lab.nodes["b"].counters()["e"]["rx_packets"] - received == accepted


def test_large_packets_are_cut_before_they_are_queued(deploy: Deploy) -> None:
    """With offload on, TCP hands over 64 kB at once; a port with room for four takes frames."""
    lab = deploy(pair(whole(10 * MBIT, 4.5 * FRAME), offload=True))
    assert tcp(lab.nodes["a"], lab.nodes["b"], B, 2)["bits_per_second"] > 3 * MBIT


@pytest.mark.measures
def test_classes_share_the_whole_and_keep_to_their_own(deploy: Deploy) -> None:
    """Three sources of at most 10 Mbit/s into 12: alone 10, together a third each."""
    sources = [A, "10.0.0.11", "10.0.0.12"]
    classes = [
        ClassPlan(name=f"path:{n}:forward", source=IPv4Network(source), rate=Rate(10 * MBIT))
        for n, source in enumerate(sources)
    ]
    lab = deploy(pair(*classes, rate=12 * MBIT, more=tuple(f"{s}/24" for s in sources[1:])))
    a, b = lab.nodes["a"], lab.nodes["b"]
    with udp_flood(a, b, B, 20 * MBIT, "-B", A):
        assert class_rate(a, "path:0:forward", 1.5) == pytest.approx(10 * MBIT, rel=0.02)
        command = ["iperf3", "-u", "-c", B, "-p", "5202", "-b", "20M", "-l", "1472", "-t", "9"]
        server = b.start(["iperf3", "-s", "-p", "5202"])
        until(lambda: "5202" in b.run(["ss", "-ltn"], timeout=60).stdout)
        client = a.start([*command, "-B", sources[1]])
        until(lambda: a.counters()["path:1:forward"]["packets"] > 100)
        rate = class_rate(a, "path:1:forward", 1.5)
        client.stop()
        server.stop()
    assert rate == pytest.approx(6 * MBIT, rel=0.05)
    assert a.counters()["path:2:forward"]["packets"] == 0


@pytest.mark.measures
def test_rate_changes_while_packets_flow(deploy: Deploy) -> None:
    lab = deploy(pair(whole(10 * MBIT)))
    with udp_flood(lab.nodes["a"], lab.nodes["b"], B, 60 * MBIT):
        for mbit in (30, 2):
            lab.apply("link:x", Change(rate=Rate(mbit * MBIT)))
            assert received_rate(lab.nodes["b"], "e", 1.5) == pytest.approx(mbit * MBIT, rel=0.03)
    forward = next(s for s in lab.plan.shapers if s.name == NAME)
    assert forward.classes[0].rate == Rate(2 * MBIT)
    assert LocalDriver().attach(lab.name).plan == lab.plan


def test_queue_changes_while_packets_flow(deploy: Deploy) -> None:
    lab = deploy(pair(whole(1 * MBIT, 30 * FRAME)))
    a = lab.nodes["a"]
    with udp_flood(a, lab.nodes["b"], B, 3 * MBIT):
        until(lambda: a.counters()[NAME]["backlog"] > 25 * FRAME)
        lab.apply("link:x", Change(queue=Size(10 * FRAME)))
        until(lambda: a.counters()[NAME]["backlog"] <= 10 * FRAME)
        lab.apply("link:x", Change(queue=Size(20 * FRAME)))
        until(lambda: a.counters()[NAME]["backlog"] > 15 * FRAME)


@pytest.mark.parametrize("classes", [(), (whole(),), (whole(10 * MBIT),)])
def test_down_drops_and_counts_and_up_brings_back(
    deploy: Deploy, classes: tuple[ClassPlan, ...]
) -> None:
    lab = deploy(pair(*classes))
    a, b = lab.nodes["a"], lab.nodes["b"]
    assert ping(a, B) == 3
    for round_number in (1, 2):
        lab.apply("link:x", Change(up=False))
        assert ping(a, B) == 0
        assert ping(b, A) == 0
        assert a.counters()[NAME]["drop_down"] >= 3 * round_number
        lab.apply("link:x", Change(up=True))
        until(lambda: ping(a, B) == 3)
    assert ping(b, A) == 3
    assert a.counters()[NAME]["drop_queue"] == 0


@pytest.mark.measures
def test_a_link_without_limits_can_get_one(deploy: Deploy) -> None:
    lab = deploy(pair())
    lab.apply("link:x", Change(rate=Rate(5 * MBIT)))
    with udp_flood(lab.nodes["a"], lab.nodes["b"], B, 10 * MBIT):
        assert received_rate(lab.nodes["b"], "e", 2) == pytest.approx(5 * MBIT, rel=0.02)
    assert "link:x:reverse" in lab.nodes["b"].counters()


def test_a_path_goes_down_alone(deploy: Deploy) -> None:
    lab = deploy(branches(2))
    gateway = lab.nodes["gw1"]
    lab.apply("path:1a-2a", Change(up=False))
    assert ping(gateway, "198.18.2.2", "-I", "198.18.1.2") == 0
    assert ping(gateway, "198.18.2.6", "-I", "198.18.1.2") == 3
    assert ping(gateway, "198.18.2.2", "-I", "198.18.1.6") == 3
    assert lab.nodes["internet"].counters()["path:1a-2a:forward"]["drop_down"] == 3


def test_a_port_goes_down_with_all_its_paths(deploy: Deploy) -> None:
    lab = deploy(branches(2))
    gateway = lab.nodes["gw1"]
    lab.apply("port:gw1.a", Change(up=False, rate=Rate(5 * MBIT)))
    for target in ("198.18.2.2", "198.18.2.6"):
        assert ping(gateway, target, "-I", "198.18.1.2") == 0
        assert ping(gateway, target, "-I", "198.18.1.6") == 3
    lab.apply("port:gw1.a", Change(up=True))
    until(lambda: ping(gateway, "198.18.2.2", "-I", "198.18.1.2") == 3)
    ports = {s.name: s.rate for s in lab.plan.shapers if s.name.startswith("port:gw1.a")}
    assert ports == dict.fromkeys(["port:gw1.a:forward", "port:gw1.a:reverse"], Rate(5 * MBIT))


def test_an_unknown_element_is_named_with_those_there_are(deploy: Deploy) -> None:
    lab = deploy(pair(whole(MBIT)))
    with pytest.raises(DriverError, match=r"no element 'link:y' in this lab; there are: link:x"):
        lab.apply("link:y", Change(up=False))
