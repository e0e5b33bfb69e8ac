"""Paths that fail under a transfer: it goes on, and they are used again once they are back.

   b1 10.1.0.1 -- wa -- 1a  router  2a -- wa -- 10.2.0.1 b2     paths 1a>2a, 1a>2b, 1b>2a, 1b>2b
                  wb -- 1b          2b -- wb                    of 10 Mbit/s each

Drawn with addresses in lab/gateway/pair.py. A routing rule of the router cuts a path silently.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.gateway.groups import GROUP_PORTS, busiest, two_groups
from lab.gateway.pair import Gateway, Lab
from lab.traffic.transfer import Transfer
from lab.waiting import until

pytestmark = pytest.mark.root

RATES = (10, 10, 10, 10)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with Lab(tmp_path) as lab:
        yield lab.paths(RATES)


def test_probes_are_told_from_unauthenticated_peers(lab: Lab) -> None:
    one, two = lab.pair(subflows=4)
    until(lambda: one.subflows() == 4, "every path has a subflow")
    until(
        lambda: two.get("/v1/counters")["unauthenticated"]["probes"] >= 3, "all but the first path"
    )
    found = two.get("/v1/counters")["unauthenticated"]
    # no hello: on a slow machine the peer may give up its own first connection and dial again
    assert {name for name, count in found.items() if count} - {"no_hello"} == {"probes"}


def test_a_transfer_survives_paths_that_are_cut(lab: Lab) -> None:
    one, two = lab.pair(subflows=4)
    transfer = Transfer(lab)
    until(lambda: received(two) > 1e6, "the transfer runs")
    mend = [lab.cut("1a", "2a"), lab.cut("1a", "2b"), lab.cut("1b", "2a")]
    until(lambda: one.subflows() == 1, "one path is left")
    came = received(two)
    until(lambda: received(two) > came + 500_000, "the transfer goes on over it")
    for each in mend:
        each()
    until(lambda: one.subflows() == two.subflows() == 4, "all are back")
    transfer.end()
    assert one.get("/v1/status")["peers"][0]["groups"][0]["reconnects"] == 0


def received(gateway: Gateway, group: int | None = None) -> int:
    """Bytes that came from the peer by a group, or by all."""
    groups = gateway.get("/v1/counters")["peers"][0]["groups"]
    return sum(g["received"]["bytes"] for g in groups if group in (None, g["id"]))


def test_a_transfer_leaves_a_group_that_is_cut(lab: Lab) -> None:
    one, two = two_groups(lab)
    transfer = Transfer(lab)
    until(lambda: received(two) > 1e6, "the transfer runs")
    cut = busiest(one)
    other = 1 - cut
    before = received(two, other)
    lab.cut(*GROUP_PORTS[cut])
    until(lambda: received(two, other) > before + 1e6, "it goes on over the other")
    transfer.end()


def test_a_path_is_joined_however_late_it_comes(lab: Lab) -> None:
    mend = lab.cut("1b", "2b")
    one, _ = lab.pair(subflows=3)
    time.sleep(1.5)
    assert one.subflows() == 3
    mend()
    until(lambda: one.subflows() == 4, "the fourth path")
