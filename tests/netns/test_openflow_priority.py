"""Strict priority at a WAN port that Open vSwitch sends to: classes by the sender's address.

    gw1 mpa_0 -[ofs]- a: 10 Mbit/s, Type I > Type II > the rest -- internet -- gw2

Type I goes by path 3 (a > b), Type II by path 1 (a > a).
"""

from __future__ import annotations

import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import openflow_lab
import pytest
from driver_plans import FRAME, MBIT

from hawser.driver import openvswitch
from hawser.driver.local import LocalLab
from hawser.node import namespace
from hawser.overlay.openflow import ControllerConfig
from hawser.overlay.plan import ClassPlan, NetworkPlan, ShaperPlan, class_id
from hawser.spec.units import Rate, Size
from worked_example import AGENT, address

pytestmark = [
    pytest.mark.root,
    pytest.mark.measures,
    pytest.mark.skipif(bool(openvswitch.absent()), reason=f"needs Debian {openvswitch.PACKAGE}"),
]

PATHS = {1: (("1a", "2a"),), 3: (("1a", "2b"),)}
NAME = "port:gw1.a:forward"
RATE = 10 * MBIT
QUEUE = Size(30 * FRAME)
LEVELS = (
    ClassPlan(name=f"{NAME}:I", marked=True, priority=0, queue=QUEUE),
    ClassPlan(name=f"{NAME}:II", marked=True, priority=1, queue=QUEUE),
    ClassPlan(name=f"{NAME}:III", priority=2, queue=QUEUE),
)


def plan() -> NetworkPlan:
    """The lab with a shaper at gw1.a, and entries with the class of their path."""
    made = openflow_lab.plan(2, PATHS)
    shaper = ShaperPlan(
        node="gw1",
        interface="a",
        name=NAME,
        rate=Rate(RATE),
        classes=LEVELS,
        sender_marks=True,
    )
    (ssc,) = made.daemons
    config = ControllerConfig.model_validate(ssc.config).model_dump(mode="json", by_alias=True)
    for switch in config["switches"]:
        for entry in switch["entries"]:
            if entry["output"] != "agent":
                entry["output"]["class"] = class_id(0 if entry["name"].startswith("m3") else 1)
    update = {"daemons": (ssc.model_copy(update={"config": config}),), "shapers": (shaper,)}
    return made.model_copy(update=update)


def udp(lab: LocalLab, node: str, port: str, number: int = 0) -> socket.socket:
    """A socket at a WAN address."""
    made = namespace.inside(
        lab.nodes[node].namespace, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    )
    made.bind((address(port), number))
    made.settimeout(1)
    return made


@contextmanager
def flood(lab: LocalLab) -> Iterator[None]:
    """Offer Type II twice what the port carries, in full frames."""
    over = threading.Event()

    def send() -> None:
        with udp(lab, "gw1", "1a") as out:
            start, sent = time.monotonic(), 0
            while not over.wait(0.002):
                while sent < (time.monotonic() - start) * 2 * RATE / 8 / FRAME:
                    out.sendto(bytes(FRAME - 42), (address("2a"), AGENT))
                    sent += 1

    thread = threading.Thread(target=send)
    thread.start()
    try:
        time.sleep(0.5)
        yield
    finally:
        over.set()
        thread.join()


def echoes(lab: LocalLab, number: int) -> list[float]:
    """Round-trip times of Type I echoes, ms; fails on a lost one."""
    found = []
    with udp(lab, "gw1", "1a") as near, udp(lab, "gw2", "2b", AGENT) as far:
        for _ in range(number):
            begun = time.perf_counter()
            near.sendto(bytes(100), (address("2b"), AGENT))
            far.sendto(*far.recvfrom(200))
            near.recv(200)
            found.append((time.perf_counter() - begun) * 1000)
            time.sleep(0.005)
    return found


def test_type_one_goes_first(deploy: Callable[[NetworkPlan], LocalLab]) -> None:
    """Under full load nothing of Type I is lost, and it waits for one packet at most."""
    lab = deploy(plan())
    idle = statistics.median(echoes(lab, 100))
    with flood(lab):
        loaded = statistics.median(echoes(lab, 200))
    serialised = FRAME * 8 / RATE * 1000
    assert loaded < idle + serialised + 2, f"idle {idle:.2f} ms, loaded {loaded:.2f} ms"
    counts = lab.nodes["gw1"].counters()
    assert counts[f"{NAME}:I"]["packets"] == 300
    assert counts[f"{NAME}:I"]["drop_queue"] == 0
    assert counts[f"{NAME}:II"]["drop_queue"] > 100
    assert counts[f"{NAME}:III"]["packets"] < 20
