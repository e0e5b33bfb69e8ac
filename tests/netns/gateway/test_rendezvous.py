"""Both ends behind NAT: a third gateway introduces them, or carries what they send.

b1 -- NAT -- internet -- NAT -- b2          drawn with addresses in lab/gateway/nats.py
                |
                b3
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.gateway.nats import (
    ANY_PORT,
    KEEPS_PORTS,
    behind_nats,
    counters,
    forget,
    gateways,
    group,
    path,
    translate,
)
from lab.gateway.pair import Gateway, Lab
from lab.traffic.transfer import Transfer, send_bytes
from lab.waiting import until

pytestmark = pytest.mark.root


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with Lab(tmp_path) as lab:
        yield lab


def meet(ends: dict[int, Gateway], *, via: str | None = None) -> None:
    """Wait until b1 and b2 have a path to each other, directly or through another branch."""

    def met() -> bool:
        both = (group(ends[1], 2), group(ends[2], 1))
        return all(g["up"] and g["paths"][0].get("via") == via for g in both)

    until(met, f"b1 and b2 meet, through {via}", 90)


def goes_on(gateway: Gateway, amount: float = 1e6) -> None:
    """Wait until so many bytes more have come from b1."""
    came = counters(gateway, 1)["received"]["bytes"]
    until(lambda: counters(gateway, 1)["received"]["bytes"] > came + amount, "it goes on", 60)


def test_a_gateway_tells_from_where_it_sees_others(lab: Lab) -> None:
    ends = gateways(behind_nats(lab, KEEPS_PORTS, ANY_PORT))
    until(lambda: path(ends[1], 3).get("reflexive") == "198.18.1.2:4161", "b1 is told")
    until(lambda: "reflexive" in path(ends[2], 3), "b2 is told")
    address, port = path(ends[2], 3)["reflexive"].split(":")
    assert address == "198.18.2.2"
    assert port != "4225"
    until(lambda: path(ends[3], 1).get("reflexive") == "198.18.3.2:4288", "b3 is told")
    forget(lab, 1, 7)
    until(lambda: path(ends[1], 3).get("reflexive") == "198.18.1.7:4161", "b1 is told anew")
    assert group(ends[1], 3)["reconnects"] == 0


def test_both_ends_are_behind_nats_that_keep_ports(lab: Lab) -> None:
    """The path is direct, and traffic goes on when either NAT gets another address."""
    ends = gateways(behind_nats(lab, KEEPS_PORTS, KEEPS_PORTS))
    meet(ends)
    assert path(ends[1], 2)["remote"] == path(ends[2], 3)["reflexive"] == "198.18.2.2:4225"
    assert path(ends[2], 1)["remote"] == path(ends[1], 3)["reflexive"] == "198.18.1.2:4161"
    send_bytes(lab, 1 << 20)
    transfer = Transfer(lab, pause=0.002)
    for branch, host in ((1, 7), (2, 8)):
        goes_on(ends[2])
        forget(lab, branch, host)
        goes_on(ends[2])
        meet(ends)
    assert transfer.end() < 20
    assert path(ends[2], 1)["remote"] == "198.18.1.7:4161"
    assert path(ends[1], 2)["remote"] == "198.18.2.8:4225"
    assert len(lab.ping(3)) == 3


@pytest.mark.parametrize("rules", [(ANY_PORT, ANY_PORT), (KEEPS_PORTS, ANY_PORT)])
def test_where_no_direct_path_opens_it_leads_through_the_third(
    lab: Lab, rules: tuple[str, str]
) -> None:
    ends = gateways(behind_nats(lab, *rules))
    until(lambda: group(ends[1], 2)["waiting"], "it is said what is missing")
    assert "b3" in group(ends[1], 2)["waiting"][0]["reason"]
    meet(ends, via="b3")
    send_bytes(lab, 1 << 20)
    transfer = Transfer(lab, pause=0.002)
    goes_on(ends[2])
    relayed = counters(ends[3], 1)["rendezvous"]["relayed_bytes"]
    goes_on(ends[2])
    assert counters(ends[3], 1)["rendezvous"]["relayed_bytes"] > relayed + 500_000
    forget(lab, 1, 7)
    goes_on(ends[2])
    transfer.end()
    assert not any(counters(ends[3], number)["received"]["packets"] for number in (1, 2))
    assert counters(ends[3], 1)["drops"]["malformed"] == 0


def test_a_path_through_the_third_becomes_direct(lab: Lab) -> None:
    """When a NAT lets it, and back, without a connection lost."""
    ends = gateways(behind_nats(lab, ANY_PORT, KEEPS_PORTS))
    meet(ends, via="b3")
    transfer = Transfer(lab, pause=0.002)
    goes_on(ends[2])
    translate(lab, 1, KEEPS_PORTS)
    forget(lab, 1, 7)
    meet(ends)
    goes_on(ends[2])
    translate(lab, 1, ANY_PORT)
    forget(lab, 1, 8)
    meet(ends, via="b3")
    goes_on(ends[2])
    transfer.end()
