"""Gateways that strangers flood with connection attempts, and peers that restart.

 b1 10.1.0.1                                 b2 10.2.0.1
+----------------+                          +----------------+
| wa 198.18.0.1  |------+            +------| wa 198.18.0.2  |   one unlimited path (`Lab.direct`)
+----------------+      +------------+      +----------------+

Forged Initials leave b1's namespace with sources that are nobody's (10.66.0.0/16).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.gateway.flood import restart_under_flood, unauthenticated
from lab.gateway.pair import Lab
from lab.gateway.quic import quic_pair
from lab.traffic.transfer import send_bytes
from lab.waiting import until

pytestmark = pytest.mark.root


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with Lab(tmp_path) as lab:
        yield lab.direct()


FLOOD = float(os.environ.get("HAWSER_FLOOD", "2"))
"""How long a flood goes on, s. The long form is `HAWSER_FLOOD=60`."""


def test_a_flood_of_forged_initials_keeps_no_peer_out(lab: Lab) -> None:
    """How fast it connects is judged in tests/timing."""
    one, two = quic_pair(lab)
    outcome = restart_under_flood(lab, one, two, FLOOD)
    sys.stdout.write(f"{outcome}\n")
    send_bytes(lab, 1 << 20)  # what a flooded socket loses is retransmitted
    assert outcome.grown < 32 << 10, "KiB: what strangers take is bounded"
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
