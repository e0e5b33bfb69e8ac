"""Paths that fail under a transfer: it goes on, and they are taken again when they are back."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from gateway_lab import Gateway, Lab, until

pytestmark = pytest.mark.root

RATES = (10, 10, 10, 10)

OUTAGE = 1.0
"""Seconds in which a transfer may stand still, at most."""

RECEIVE = """
import hashlib, json, socket, time
with socket.create_server(("", 7)) as server:
    print("listening", flush=True)
    stream, _ = server.accept()
digest, last, gap = hashlib.sha256(), None, 0.0
while data := stream.recv(1 << 16):
    now = time.monotonic()
    gap = max(gap, now - (last or now))
    last = now
    digest.update(data)
print(json.dumps({"digest": digest.hexdigest(), "gap": gap}))
"""

SEND = """
import hashlib, random, socket, sys, time
source, digest = random.Random(7), hashlib.sha256()
with socket.create_connection(("10.2.0.1", 7), timeout=30) as stream:
    print("connected", flush=True)
    end = time.monotonic() + float(sys.argv[1])
    while time.monotonic() < end:
        data = source.randbytes(1 << 14)
        digest.update(data)
        stream.sendall(data)
print(digest.hexdigest())
"""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with Lab(tmp_path) as lab:
        yield lab.paths(RATES)


class Transfer:
    """One TCP connection from branch 1 to branch 2."""

    def __init__(self, lab: Lab, seconds: float) -> None:
        pipe = {"stdout": subprocess.PIPE}
        self.receiver = lab.start(2, sys.executable, "-c", RECEIVE, **pipe)
        assert self.receiver.stdout
        assert self.receiver.stdout.readline() == "listening\n"
        self.sender = lab.start(1, sys.executable, "-c", SEND, str(seconds), **pipe)
        assert self.sender.stdout
        assert self.sender.stdout.readline() == "connected\n"

    def gap(self) -> float:
        """Wait for the end; the longest time in which nothing came. All that came is right."""
        sent, _ = self.sender.communicate(timeout=30)
        received, _ = self.receiver.communicate(timeout=30)
        found: dict[str, Any] = json.loads(received)
        assert found["digest"] == sent.strip()
        return float(found["gap"])


def subflows(gateway: Gateway, wanted: int) -> Callable[[], bool]:
    return lambda: gateway.subflows() == wanted


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
