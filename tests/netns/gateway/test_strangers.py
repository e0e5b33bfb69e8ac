"""Gateways that strangers flood with connection attempts, and peers that restart.

 b1 10.1.0.1                                 b2 10.2.0.1
+----------------+                          +----------------+
| wa 198.18.0.1  |------+            +------| wa 198.18.0.2  |   one unlimited path (`Lab.direct`)
+----------------+      +------------+      +----------------+

Forged Initials leave b1's namespace with sources that are nobody's (10.66.0.0/16).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.gateway.flood import flood, unauthenticated
from lab.gateway.pair import Lab
from lab.gateway.quic import quic_pair
from lab.waiting import until

pytestmark = pytest.mark.root


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with Lab(tmp_path) as lab:
        yield lab.direct()


def test_a_flood_of_forged_initials_keeps_no_peer_out(lab: Lab) -> None:
    one, two = quic_pair(lab)
    before = two.memory()[0]
    lab.at(2, "ip", "route", "add", "10.66.0.0/16", "via", "198.18.0.1")
    sender = flood(lab, 1, "wa", "198.18.0.2")
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
