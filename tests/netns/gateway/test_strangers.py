"""Gateways that strangers flood with connection attempts, and peers that restart.

 b1 10.1.0.1                                 b2 10.2.0.1
+----------------+                          +----------------+
| wa 198.18.0.1  |------+            +------| wa 198.18.0.2  |   one unlimited path (`Lab.direct`)
+----------------+      +------------+      +----------------+

Forged Initials leave b1's namespace with sources that are nobody's (10.66.0.0/16).
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import ROOT
from lab.gateway.pair import Gateway, Lab
from lab.gateway.quic import quic_pair
from lab.waiting import until

pytestmark = pytest.mark.root

SENDER = ROOT / "tests" / "lab" / "gateway" / "initials.py"
LISTENER = 66 << 6
"""Port on which branch 2 accepts the connections of group 0."""
RATE = 10_000
"""Initials a second, if the machine can."""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with Lab(tmp_path) as lab:
        yield lab.direct()


def unauthenticated(gateway: Gateway) -> dict[str, int]:
    found: dict[str, int] = gateway.get("/v1/counters")["unauthenticated"]
    return found


def flood(lab: Lab, seconds: int = 600) -> subprocess.Popen[str]:
    """Send forged Initials to gateway 2, for longer than a test needs."""
    lab.at(2, "sysctl", "-qw", "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.wa.rp_filter=0")
    lab.at(2, "ip", "route", "add", "10.66.0.0/16", "via", "198.18.0.1")
    to = ("wa", "10.66.0.0", "198.18.0.2", str(LISTENER), str(seconds), str(RATE))
    sender = lab.start(1, sys.executable, str(SENDER), *to, stdout=subprocess.PIPE)
    assert sender.stdout
    assert sender.stdout.readline() == "starts\n"
    return sender


def test_a_flood_of_forged_initials_keeps_no_peer_out(lab: Lab) -> None:
    one, two = quic_pair(lab)
    before = two.memory()[0]
    sender = flood(lab)
    until(lambda: unauthenticated(two)["retries"] > 2000, "addresses have to be proved")
    one.stop(9)
    one.start()
    until(one.up, "a peer that restarts is back")
    assert sender.poll() is None, "the flood goes on"
    assert len(lab.ping(10)) == 10
    assert two.memory()[1] - before < 32 << 10, "KiB: what strangers take is bounded"
    counted = unauthenticated(two)
    assert counted["too_many"] == counted["too_many_from_source"] == 0


@pytest.mark.parametrize("number", [1, 2])
def test_a_restart_is_noticed_by_what_the_peer_sends(lab: Lab, number: int) -> None:
    """Its connection ends by a reset, or a new one takes its place; nobody waits for silence."""
    gateways = quic_pair(lab)
    again, other = gateways[number - 1], gateways[2 - number]
    again.stop(9)
    again.start()
    until(lambda: again.up() and other.up(), "both are up")
    assert len(lab.ping(20)) == 20
    assert other.group()["ends"]["silent"] == 0
