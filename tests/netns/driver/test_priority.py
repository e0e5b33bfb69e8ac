"""Strict priority at a shaped port: packets name their class, lower classes wait.

 a                                                       b
+-------------+                                         +-------------+
| e 10.0.0.1  |--[ I | II | III ]---- x, 10 Mbit/s -----| e 10.0.0.2  |
+-------------+   20 frames each                        +-------------+
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from hawser.driver.local import LocalLab
from hawser.node.netns import htb
from hawser.overlay.config.shaping import class_id
from hawser.overlay.lab.plan import NetworkPlan
from hawser.spec.units import Rate
from hawser.spec.workflow import Change
from lab.plans.small import FRAME, LEVELS, MBIT, B, pair
from lab.traffic.counted import datagrams, frames, kernel_priority, kernel_rate, limit, send
from lab.traffic.nodes import flood, ping
from lab.waiting import until

pytestmark = pytest.mark.root

Deploy = Callable[[NetworkPlan], LocalLab]
FIRST, SECOND, LAST = (level.name for level in LEVELS)
SLOW = 750
STOPPED = Change(rate=Rate(8 * SLOW))
"""A frame leaves every two seconds. A port that was slower needs as long to take a new rate."""


@pytest.fixture
def lab(deploy: Deploy) -> LocalLab:
    made = deploy(pair(*LEVELS, rate=10 * MBIT))
    assert ping(made.nodes["a"], B) == 3  # neighbours are resolved from here on
    return made


def burst(lab: LocalLab, level: int, count: int) -> None:
    """Send full frames of a level."""
    priority = class_id(level) if LEVELS[level].marked else None
    send(lab.nodes["a"], B, frames(str(level).encode(), count), priority=priority)


def counts(lab: LocalLab, what: str) -> list[int]:
    counters = lab.nodes["a"].counters()
    return [counters[level.name][what] for level in LEVELS]


def test_what_is_urgent_goes_first_and_the_last_gets_what_is_left(lab: LocalLab) -> None:
    a = lab.nodes["a"]
    assert [kernel_priority(a, level.name) for level in LEVELS] == [0, 1, 2]
    with datagrams(lab.nodes["b"]) as arrived:
        lab.apply("link:x", STOPPED)
        start = time.monotonic()
        for level in (2, 1, 0):
            burst(lab, level, 15)
        burst(lab, 2, 15)
        *others, dropped = counts(lab, "drop_queue")
        lab.apply("link:x", Change(rate=Rate(10 * MBIT)))
        seconds = time.monotonic() - start
        until(lambda: len(arrived()) == 60 - dropped)
        order = [int(datagram[:1]) for datagram in arrived()]
    assert others == [0, 0]
    assert (order.count(0), order.count(1), order.count(2)) == (15, 15, 30 - dropped)
    # What left before all waited: a burst of the whole and one of the class, what the rate lets
    # go, and what a class may send without asking. A port looks again after two seconds.
    early = 5 + (htb.GUARANTEED + SLOW) * (seconds + FRAME / SLOW) / FRAME
    assert 10 - early <= dropped <= 10  # 20 wait
    last = {level: len(order) - 1 - order[::-1].index(level) for level in (0, 1)}
    assert sum(level > 0 for level in order[: last[0]]) <= 2 * early
    assert order[: last[1]].count(2) <= early


def test_all_levels_go_down_and_come_back(lab: LocalLab) -> None:
    lab.apply("link:x", STOPPED)
    before = counts(lab, "packets")
    for level in range(3):
        burst(lab, level, 10)
    assert all(waiting > 0 for waiting in counts(lab, "backlog"))
    lab.apply("link:x", Change(up=False))
    for level in range(3):
        burst(lab, level, 60)
    assert counts(lab, "drop_down") == [60, 60, 60]
    lab.apply("link:x", Change(rate=Rate(10 * MBIT)))
    until(lambda: counts(lab, "backlog") == [0, 0, 0])  # queued packets leave
    assert [after - b for after, b in zip(counts(lab, "packets"), before, strict=True)] == [10] * 3
    burst(lab, 1, 60)
    assert counts(lab, "drop_down") == [60, 120, 60]
    with datagrams(lab.nodes["b"]) as arrived:
        lab.apply("link:x", Change(up=True))
        for level in range(3):
            burst(lab, level, 10)
        until(lambda: len(arrived()) == 30)
        assert (
            sorted(datagram[:1] for datagram in arrived())
            == [b"0"] * 10 + [b"1"] * 10 + [b"2"] * 10
        )
    assert counts(lab, "drop_down") == [60, 120, 60]
    assert counts(lab, "drop_queue") == [0, 0, 0]


def test_the_rate_of_all_changes_while_packets_flow(lab: LocalLab) -> None:
    a = lab.nodes["a"]
    with flood(a, B, class_id(1), 30 * MBIT):
        for mbit in (10, 20, 5):
            lab.apply("link:x", Change(rate=Rate(mbit * MBIT)))
            assert kernel_rate(a, SECOND, whole=True) == mbit * MBIT
            counted = limit(a, FIRST, SECOND, LAST)
            until(lambda now=counted: now.bytes() > 500_000)
            counted.holds(mbit * MBIT, htb.burst(mbit * MBIT // 8) + 2 * FRAME)
