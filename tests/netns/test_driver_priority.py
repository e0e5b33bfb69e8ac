"""Strict priority at a shaped port: packets that name their class, and a port that goes down.

a --x-- b      a's port carries 10 Mbit/s, in three levels
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
from driver_plans import FRAME, MBIT, B, pair
from driver_traffic import class_rate, ping
from waiting import until

from hawser.driver.local import LocalLab
from hawser.node import namespace
from hawser.node.netns import NamespaceNode
from hawser.overlay.plan import ClassPlan, NetworkPlan, class_id
from hawser.spec.units import Rate, Size
from hawser.spec.workflow import Change

pytestmark = [pytest.mark.root, pytest.mark.measures]

Deploy = Callable[[NetworkPlan], LocalLab]
NAME = "link:x:forward"
LEVELS = (
    ClassPlan(name=f"{NAME}:I", marked=True, priority=0, queue=Size(20 * FRAME)),
    ClassPlan(name=f"{NAME}:II", marked=True, priority=1, queue=Size(20 * FRAME)),
    ClassPlan(name=f"{NAME}:III", priority=2, queue=Size(20 * FRAME)),
)


@contextmanager
def flood(node: NamespaceNode, level: int | None, mbit: float) -> Iterator[None]:
    """Send full frames at a rate, with the priority that names a level's class."""
    over = threading.Event()

    def send() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
            if level is not None:
                out.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, class_id(level))
            start, sent = time.monotonic(), 0
            while not over.wait(0.002):
                due = (time.monotonic() - start) * mbit * MBIT / 8 / FRAME
                while sent < due:
                    out.sendto(bytes(FRAME - 42), (B, 9))
                    sent += 1

    thread = threading.Thread(target=namespace.inside, args=(node.namespace, send))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.fixture
def lab(deploy: Deploy) -> LocalLab:
    made = deploy(pair(*LEVELS, rate=10 * MBIT))
    assert ping(made.nodes["a"], B) == 3  # neighbours are known from here on
    return made


def rates(lab: LocalLab) -> list[float]:
    """What leaves by each level, Mbit/s."""
    found: list[float] = [0.0] * len(LEVELS)

    def measure(index: int) -> None:
        found[index] = class_rate(lab.nodes["a"], LEVELS[index].name, 1.5) / MBIT

    threads = [threading.Thread(target=measure, args=(index,)) for index in range(len(LEVELS))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_what_is_urgent_goes_first_and_the_last_gets_what_is_left(lab: LocalLab) -> None:
    a = lab.nodes["a"]
    with flood(a, None, 8):
        assert rates(lab) == pytest.approx([0, 0, 8], rel=0.05, abs=0.1)
        with flood(a, 1, 6):
            time.sleep(0.2)
            assert rates(lab) == pytest.approx([0, 6, 4], rel=0.05, abs=0.1)
            with flood(a, 0, 7):
                time.sleep(0.2)
                urgent, second, rest = rates(lab)
    assert urgent == pytest.approx(7, rel=0.05)
    assert second == pytest.approx(3, rel=0.1)
    assert rest < 0.2
    counters = a.counters()
    assert counters[f"{NAME}:I"]["drop_queue"] == 0
    assert counters[f"{NAME}:III"]["drop_queue"] > 0


def test_all_levels_go_down_and_come_back(lab: LocalLab) -> None:
    a = lab.nodes["a"]
    with ExitStack() as floods:
        for level in (0, 1, None):
            floods.enter_context(flood(a, level, 2))
        time.sleep(0.3)
        lab.apply("link:x", Change(up=False))
        time.sleep(0.2)  # what waited leaves
        assert rates(lab) == [0, 0, 0]
        lab.apply("link:x", Change(up=True))
        assert rates(lab) == pytest.approx([2, 2, 2], rel=0.1)
    for level in LEVELS:
        assert a.counters()[level.name]["drop_down"] > 50
        assert a.counters()[level.name]["drop_queue"] == 0


def test_the_rate_of_all_changes_while_packets_flow(lab: LocalLab) -> None:
    a = lab.nodes["a"]
    with flood(a, 1, 30):
        lab.apply("link:x", Change(rate=Rate(20 * MBIT)))
        until(lambda: class_rate(a, f"{NAME}:II", 0.5) > 19 * MBIT)
        assert class_rate(a, f"{NAME}:II", 1) == pytest.approx(20 * MBIT, rel=0.03)
