"""Rates, queues and changes of a running lab, counted on real traffic.

   a                                               b
  +----------------------------+                  +-------------+
  | e 10.0.0.1 (.11, .12)      |--[shaper]--- x --| e 10.0.0.2  |
  +----------------------------+                  +-------------+

Classes are chosen by source address. The last tests shape the paths of `branches(2)`, drawn in
lab/plans/small.py.
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Network

import pytest

from hawser.driver.base import DriverError
from hawser.driver.local import LocalDriver, LocalLab
from hawser.node.netns import htb
from hawser.overlay.lab.plan import ClassPlan, NetworkPlan
from hawser.spec.units import Rate, Size
from hawser.spec.workflow import Change
from lab.plans.small import FRAME, MBIT, A, B, branches, pair, whole
from lab.traffic.counted import datagrams, deliver, frames, kernel_rate, limit, send
from lab.traffic.nodes import burst, ping, udp_flood
from lab.waiting import until

pytestmark = pytest.mark.root

Deploy = Callable[[NetworkPlan], LocalLab]
NAME = "link:x:forward"
SOURCES = {"path:0:forward": A, "path:1:forward": "10.0.0.11", "path:2:forward": "10.0.0.12"}
"""Classes and their source addresses."""


@pytest.mark.parametrize("mbit", [1, 10, 100])
def test_no_more_than_the_rate_leaves(deploy: Deploy, mbit: int) -> None:
    lab = deploy(pair(whole(mbit * MBIT)))
    a = lab.nodes["a"]
    assert kernel_rate(a, NAME) == mbit * MBIT
    with udp_flood(a, lab.nodes["b"], B, 1.3 * mbit * MBIT):
        counted = limit(a, NAME)
        until(lambda: counted.bytes() > mbit * MBIT / 8)
        counted.holds(mbit * MBIT)


def test_tcp_passes_a_shaped_port(deploy: Deploy) -> None:
    lab = deploy(pair(whole(20 * MBIT)))
    a, b = lab.nodes["a"], lab.nodes["b"]
    counted = limit(a, NAME)
    deliver(a, b, B, 3_000_000)
    assert counted.bytes() > 3_000_000
    counted.holds(20 * MBIT)


def test_queue_counts_bytes_and_every_packet_is_accounted_for(deploy: Deploy) -> None:
    queue, frame = 20_000, 1000
    lab = deploy(pair(whole(800, queue)))  # after a burst one leaves every ten seconds
    assert ping(lab.nodes["a"], B) == 3  # neighbours are resolved from here on
    a = lab.nodes["a"]
    until(lambda: a.counters()[NAME]["backlog"] == 0)
    before, received = a.counters()[NAME], lab.nodes["b"].counters()["e"]["rx_packets"]
    burst(a, B, 100, frame - 42)
    during = a.counters()[NAME]
    assert queue - 2 * frame <= during["backlog"] <= queue
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
    a, b = lab.nodes["a"], lab.nodes["b"]
    before = b.counters()["e"]
    deliver(a, b, B, 2_000_000)
    after = b.counters()["e"]
    packets, size = (after[f"rx_{what}"] - before[f"rx_{what}"] for what in ("packets", "bytes"))
    assert size > 2_000_000
    assert size <= packets * FRAME


def test_classes_share_the_whole_and_keep_to_their_own(deploy: Deploy) -> None:
    """Three sources of at most 10 Mbit/s into 12: alone 10, together a third each."""
    classes = [
        ClassPlan(
            name=name, source=IPv4Network(source), rate=Rate(10 * MBIT), queue=Size(100 * FRAME)
        )
        for name, source in SOURCES.items()
    ]
    first, *others = SOURCES.values()
    lab = deploy(pair(*classes, rate=12 * MBIT, more=tuple(f"{s}/24" for s in others)))
    a, b = lab.nodes["a"], lab.nodes["b"]
    assert ping(a, B) == 3  # neighbours are resolved from here on
    assert [kernel_rate(a, name) for name in SOURCES] == [10 * MBIT] * 3
    assert kernel_rate(a, classes[0].name, whole=True) == 12 * MBIT
    alone, together = limit(a, classes[0].name), limit(a, *SOURCES)
    with datagrams(b) as arrived:
        send(a, B, frames(b"x", 100), source=first)
        until(lambda: len(arrived()) == 100)
    alone.holds(10 * MBIT)
    assert [a.counters()[name]["packets"] for name in list(SOURCES)[1:]] == [0, 0]
    lab.apply("link:x", Change(rate=Rate(6000)))
    with datagrams(b) as arrived:
        for number, source in enumerate(SOURCES.values()):
            send(a, B, frames(str(number).encode(), 90), source=source)
        lab.apply("link:x", Change(rate=Rate(12 * MBIT)))
        until(lambda: len(arrived()) == 270)
        order = [datagram[:1] for datagram in arrived()]
    together.holds(12 * MBIT, burst=htb.burst(12 * MBIT // 8) + 6 * FRAME)
    # One after the other, apart from what had left before all of them waited.
    for count in range(3, 200):
        taken = [order[:count].count(str(number).encode()) for number in range(3)]
        assert max(taken) - min(taken) <= 8, order


def test_rate_changes_while_packets_flow(deploy: Deploy) -> None:
    lab = deploy(pair(whole(10 * MBIT)))
    a = lab.nodes["a"]
    with udp_flood(a, lab.nodes["b"], B, 60 * MBIT):
        for mbit in (30, 2):
            lab.apply("link:x", Change(rate=Rate(mbit * MBIT)))
            assert kernel_rate(a, NAME) == mbit * MBIT
            counted = limit(a, NAME)
            until(lambda now=counted, size=mbit * MBIT / 8: now.bytes() > size)
            counted.holds(mbit * MBIT)
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


def test_a_link_without_limits_can_get_one(deploy: Deploy) -> None:
    lab = deploy(pair())
    a, b = lab.nodes["a"], lab.nodes["b"]
    lab.apply("link:x", Change(rate=Rate(5 * MBIT)))
    reverse = "link:x:reverse"
    assert kernel_rate(a, NAME) == kernel_rate(b, reverse) == 5 * MBIT
    for client, server, target, name in ((a, b, B, NAME), (b, a, A, reverse)):
        counted = limit(client, name)
        deliver(client, server, target, 1_000_000)
        assert counted.bytes() > 1_000_000
        counted.holds(5 * MBIT)


def test_a_path_goes_down_alone(deploy: Deploy) -> None:
    lab = deploy(branches(2))
    gateway = lab.nodes["gw1"]
    lab.apply("path:1a-2a", Change(up=False))
    assert ping(gateway, "198.18.2.2", "198.18.1.2") == 0
    assert ping(gateway, "198.18.2.6", "198.18.1.2") == 3
    assert ping(gateway, "198.18.2.2", "198.18.1.6") == 3
    assert lab.nodes["internet"].counters()["path:1a-2a:forward"]["drop_down"] == 3


def test_a_port_goes_down_with_all_its_paths(deploy: Deploy) -> None:
    lab = deploy(branches(2))
    gateway = lab.nodes["gw1"]
    lab.apply("port:gw1.a", Change(up=False, rate=Rate(5 * MBIT)))
    for target in ("198.18.2.2", "198.18.2.6"):
        assert ping(gateway, target, "198.18.1.2") == 0
        assert ping(gateway, target, "198.18.1.6") == 3
    lab.apply("port:gw1.a", Change(up=True))
    until(lambda: ping(gateway, "198.18.2.2", "198.18.1.2") == 3)
    ports = {s.name: s.rate for s in lab.plan.shapers if s.name.startswith("port:gw1.a")}
    assert ports == dict.fromkeys(["port:gw1.a:forward", "port:gw1.a:reverse"], Rate(5 * MBIT))


def test_an_unknown_element_is_named_with_those_there_are(deploy: Deploy) -> None:
    lab = deploy(pair(whole(MBIT)))
    with pytest.raises(DriverError, match=r"no element 'link:y' in this lab; there are: link:x"):
        lab.apply("link:y", Change(up=False))
