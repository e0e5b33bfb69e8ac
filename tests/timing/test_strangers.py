"""How soon peers are back: under a flood of forged Initials, and after a restart.

b1 10.1.0.1 -- wa ----------------- wa -- 10.2.0.1 b2     one unlimited link (`Lab.direct`)

That they come back at all is tested in tests/netns/gateway/test_strangers.py.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.gateway.flood import flood, restart_under_flood, unauthenticated
from lab.gateway.pair import Gateway, Lab
from lab.gateway.quic import quic_pair
from lab.waiting import until

pytestmark = pytest.mark.root

FLOOD = float(os.environ.get("HAWSER_FLOOD", "10"))
"""How long a flood goes on, s."""
RATE = 100
"""What a connected peer sends, Mbit/s."""
SENDER = """
import contextlib, socket, time
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while True:
    with contextlib.suppress(OSError):
        sender.sendto(bytes(1200), ("10.2.0.1", 9))
    time.sleep(0.0005)
"""
"""Some 20 Mbit/s, also while there is no route because the gateway is away."""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with Lab(tmp_path) as lab:
        yield lab.direct()


def test_a_peer_connects_within_a_second_under_a_flood(lab: Lab) -> None:
    outcome = restart_under_flood(lab, *quic_pair(lab), FLOOD)
    sys.stdout.write(f"{outcome}\n")
    assert max(outcome.connects) < 1
    assert outcome.retries > 5000, "the flood is one"


def test_a_flood_leaves_a_connected_peer_its_throughput(lab: Lab) -> None:
    _, two = quic_pair(lab)
    flood(lab, 1, "wa", "198.18.0.2")
    until(lambda: unauthenticated(two)["retries"] > 2000, "addresses have to be proved")
    result = lab.iperf("-b", f"{RATE}M", seconds=5)
    assert result["end"]["sum_received"]["bits_per_second"] > 0.9e6 * RATE


@pytest.mark.parametrize("number", [1, 2])
def test_goodput_is_back_within_a_second_of_a_restart(lab: Lab, number: int) -> None:
    """UDP, so that no retransmission timer of an inner connection counts."""
    gateways = quic_pair(lab)
    lab.start(1, sys.executable, "-c", SENDER)
    until(lambda: received(gateways[1]) > 1e6, "it sends")
    again = gateways[number - 1]
    again.stop(9)
    started = time.monotonic()
    again.start()
    before = received(gateways[1])
    until(lambda: received(gateways[1]) > before + 50_000, "it goes on")
    back = time.monotonic() - started
    sys.stdout.write(f"back after {back:.2f} s\n")
    assert back < 1


def received(gateway: Gateway) -> int:
    return int(gateway.group()["received"]["bytes"])
