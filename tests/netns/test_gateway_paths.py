"""Paths that fail under a transfer: it goes on, and they are taken again when they are back."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gateway_lab import Gateway, Lab
from transfer import OUTAGE, RECEIVER, sender, standstill
from waiting import until

pytestmark = pytest.mark.root

RATES = (10, 10, 10, 10)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with Lab(tmp_path) as lab:
        yield lab.paths(RATES)


class Transfer:
    """One TCP connection from branch 1 to branch 2."""

    def __init__(self, lab: Lab, seconds: float) -> None:
        pipe = {"stdout": subprocess.PIPE}
        self.receiver = lab.start(2, *RECEIVER, **pipe)
        assert self.receiver.stdout
        assert self.receiver.stdout.readline() == "listening\n"
        self.sender = lab.start(1, *sender("10.2.0.1", seconds), **pipe)
        assert self.sender.stdout
        assert self.sender.stdout.readline() == "connected\n"

    def gap(self) -> float:
        """Wait for the end; the longest time in which nothing came. All that came is right."""
        sent, _ = self.sender.communicate(timeout=60)
        received, _ = self.receiver.communicate(timeout=60)
        return standstill(sent, received)


def subflows(gateway: Gateway, wanted: int) -> Callable[[], bool]:
    return lambda: gateway.subflows() == wanted


def test_probes_are_told_from_strangers(lab: Lab) -> None:
    one, two = lab.pair(subflows=4)
    until(lambda: one.subflows() == 4, "every path has a subflow")
    until(lambda: two.get("/v1/counters")["strangers"]["probes"] == 3, "all but the first path")
    found = two.get("/v1/counters")["strangers"]
    assert {name for name, count in found.items() if count} == {"probes"}


@pytest.mark.measures
def test_a_transfer_survives_paths_that_are_cut(lab: Lab) -> None:
    one, two = lab.pair(subflows=4)
    transfer = Transfer(lab, 3)
    time.sleep(1)
    mend = [lab.cut("1a", "2a"), lab.cut("1a", "2b"), lab.cut("1b", "2a")]
    until(lambda: one.subflows() == 1, "one path is left")
    time.sleep(0.5)
    for each in mend:
        each()
    assert transfer.gap() <= OUTAGE
    until(lambda: one.subflows() == two.subflows() == 4, "all are back")
    assert one.get("/v1/status")["peers"][0]["groups"][0]["reconnects"] == 0


@pytest.mark.measures
def test_a_transfer_leaves_a_group_that_is_cut(lab: Lab) -> None:
    one, two = lab.gateway(1, 2), lab.gateway(2, 1)
    for own, other, gateway in ((1, 2, one), (2, 1, two)):
        paths = lab.member_paths(own, other)
        groups = [{"id": 0, "paths": [paths[0]]}, {"id": 1, "paths": [paths[3]]}]
        gateway.config["peers"][0]["groups"] = groups
        gateway.start()
    until(lambda: one.subflows() == two.subflows() == 2, "both groups are up")
    transfer = Transfer(lab, 3)
    time.sleep(1)
    lab.cut(*carrying(one))
    assert transfer.gap() <= OUTAGE


def carrying(gateway: Gateway) -> tuple[str, str]:
    """The ports of the path that carries most."""
    groups = gateway.get("/v1/counters")["peers"][0]["groups"]
    busiest = max(groups, key=lambda group: int(group["sent"]["bytes"]))
    return (("1a", "2a"), ("1b", "2b"))[busiest["id"]]


def test_a_path_is_joined_however_late_it_comes(lab: Lab) -> None:
    mend = lab.cut("1b", "2b")
    one, _ = lab.pair(subflows=3)
    time.sleep(1.5)
    assert one.subflows() == 3
    mend()
    until(lambda: one.subflows() == 4, "the fourth path")
