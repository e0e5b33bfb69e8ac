"""Paths that take short packets only: nothing waits for a path that will never come.

   b1 10.1.0.1 -- wa ----------------- wa -- 10.2.0.1 b2        one unlimited path (`Lab.direct`)

   b1 10.1.0.1 -- wa -- 1a  router  2a -- wa -- 10.2.0.1 b2     four paths with a rate each, whose
                  wb -- 1b          2b -- wb                    queues hold 50 packets (`Lab.paths`)

   host 3 -- b1 ... b2 -- host 4                                (`with_hosts`)

Drawn with addresses in lab/gateway/pair.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.gateway.mtu import (
    BEHIND_LAN,
    HEARS_NOTHING,
    MAY_BE_FRAGMENTED,
    carried,
    datagrams,
    device_mtu,
    follows,
    set_mtu,
    start_quic,
    stream,
    told,
    with_hosts,
)
from lab.gateway.pair import Gateway, Lab
from lab.traffic.transfer import Transfer, send_bytes
from lab.waiting import until

pytestmark = pytest.mark.root


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with Lab(tmp_path) as lab:
        yield lab


def sizes(gateway: Gateway) -> dict[str, int]:
    found: dict[str, int] = gateway.group()["sizes"]
    return found


def inner_mtu(gateway: Gateway) -> int | None:
    """What goes whole over all paths, once that is known."""
    found: int | None = gateway.get("/v1/status")["peers"][0]["groups"][0].get("mtu")
    return found


def received(gateway: Gateway) -> int:
    return int(gateway.group()["received"]["bytes"])


@pytest.mark.parametrize("outer", [1280, 1400, 1420, 1492, 1500, 9000])
def test_tcp_passes_and_the_right_size_is_told(lab: Lab, outer: int) -> None:
    lab.direct()
    set_mtu(lab, outer)
    one, two = start_quic(lab)
    mtu = min(1500, carried(outer))
    follows(lab, mtu)
    send_bytes(lab, 4 << 20)
    if mtu < 1500:
        assert mtu - 3 <= (told(lab, 1500) or 0) <= mtu
    assert device_mtu(lab, 1) == min(inner_mtu(one) or 0, 1500)
    assert two.group()["drops"]["malformed"] == 0


@pytest.mark.parametrize("outer", [1280, 1400, 1500, 9000])
def test_ipv6_outside(lab: Lab, outer: int) -> None:
    lab.direct()
    for number in (1, 2):
        lab.at(number, "ip", "addr", "add", f"fd00::{number}/64", "dev", "wa", "nodad")
    lab.wans = {1: ["fd00::1"], 2: ["fd00::2"]}
    set_mtu(lab, outer)
    start_quic(lab)
    mtu = min(1500, carried(outer, v6=True))
    follows(lab, mtu)
    send_bytes(lab, 4 << 20)
    if mtu < 1500:
        assert mtu - 3 <= (told(lab, 1500) or 0) <= mtu


@pytest.mark.parametrize("oversize", ["answer", "fragment"])
def test_a_transfer_goes_on_while_the_mtu_shrinks_and_grows(lab: Lab, oversize: str) -> None:
    """The MTU of the interfaces, of which the kernel tells who sends too much."""
    lab.direct()
    one, two = start_quic(lab, transport={"oversize": oversize})
    transfer = Transfer(lab, pause=0.002)
    until(lambda: received(two) > 1e6, "the transfer runs")
    for outer in (1400, 1280, 1500):
        set_mtu(lab, outer)
        came = received(two)
        until(lambda came=came: received(two) > came + 2e6, f"it goes on over {outer} bytes", 60)
        if oversize == "answer":
            follows(lab, carried(outer), numbers=(1,))
    transfer.end()
    assert one.group()["drops"]["malformed"] == two.group()["drops"]["malformed"] == 0


def test_a_transfer_goes_on_while_a_router_takes_less(lab: Lab) -> None:
    """The MTU inside the network, of which nobody is told that listens."""
    _, two = start_quic(lab.paths((10, 10, 10, 10)))
    follows(lab, carried(1500))
    transfer = Transfer(lab)
    until(lambda: received(two) > 1e6, "the transfer runs")
    for port in ("i1a", "i1b", "i2a", "i2b"):
        lab.at(0, "ip", "link", "set", port, "mtu", "1400")
    came = received(two)
    until(lambda: received(two) > came + 3e6, "it goes on", 60)
    follows(lab, carried(1400), numbers=(1,))
    transfer.end()
    # In the other direction nothing large is lost: the segments that branch 1 announces fit.
    Transfer(lab, 1 << 20, to="10.1.0.1", port=8, back=True).end()


def test_the_smallest_path_counts_and_takes_over(lab: Lab) -> None:
    """From two paths of 1500 bytes and two of 1400 to the smaller ones."""
    lab.paths((10, 10, 10, 10))
    lab.at(0, "ip", "link", "set", "i2b", "mtu", "1400")
    lab.at(2, "ip", "link", "set", "wb", "mtu", "1400")
    _, two = start_quic(lab)
    follows(lab, carried(1400))
    transfer = Transfer(lab)
    until(lambda: received(two) > 1e6, "the transfer runs")
    lab.cut("1a", "2a")
    lab.cut("1b", "2a")
    came = received(two)
    until(lambda: received(two) > came + 3e6, "it goes on over the smaller paths", 60)
    transfer.end()
    assert abs(device_mtu(lab, 1) - carried(1400)) <= 3


def with_oversize(lab: Lab, oversize: str) -> tuple[Gateway, Gateway]:
    """Gateways with hosts behind them, over a path of 1400 bytes."""
    with_hosts(lab.direct())
    set_mtu(lab, 1400)
    return start_quic(lab, transport={"oversize": oversize}, **BEHIND_LAN)


@pytest.mark.parametrize("oversize", ["answer", "fragment"])
def test_hosts_that_hear_no_icmp(lab: Lab, oversize: str) -> None:
    """TCP and packets without DF pass in any case, others in fragments where that is wanted."""
    one, two = with_oversize(lab, oversize)
    until(lambda: (inner_mtu(one) or 1500) < 1400, "the MTU is known")
    stream(lab, "4M", hosts=(3, 4))
    assert datagrams(lab, 1472, MAY_BE_FRAGMENTED, hosts=(3, 4)) == 10
    whole = datagrams(lab, 1472, HEARS_NOTHING, hosts=(3, 4))
    assert whole == (10 if oversize == "fragment" else 0)
    assert two.group()["drops"]["malformed"] == 0
    if oversize == "fragment":
        assert sizes(one)["sent_in_fragments"] >= 10
        assert sizes(two)["reassembled"] >= 10
        assert device_mtu(lab, 1) == 1500


def test_ipv6_inside_has_its_1280_bytes(lab: Lab) -> None:
    """Over a path that leaves room for less: the tunnel fragments (RFC 8200 section 5)."""
    lab.direct()
    set_mtu(lab, 1280)
    changes: dict[int, dict[str, Any]] = {}
    for number, other in ((1, 2), (2, 1)):
        gateway = lab.gateway(number, other)
        gateway.config["peers"][0]["prefixes"].append(f"fd0{other}::/64")
        gateway.config["source6"] = f"fd0{number}::1"
        changes[number] = gateway.config
        lab.at(number, "ip", "addr", "add", f"fd0{number}::1/64", "dev", "lo", "nodad")
    lab.gateways.clear()
    one, two = start_quic(lab, configs=changes)
    follows(lab, 1280)
    assert "2 received" in lab.at(1, "ping", "-6", "-c2", "-M", "do", "-s", "1232", "fd02::1")
    assert sizes(one)["sent_in_fragments"] >= 2
    assert sizes(two)["reassembled"] >= 2
    assert told(lab, 1400, to="fd02::1") == 1280
    send_bytes(lab, 1 << 20, to="fd02::1")


@pytest.mark.parametrize("outer", [1280, 1400, 9000])
def test_records_of_mptcp_need_not_fit(lab: Lab, outer: int) -> None:
    lab.direct()
    set_mtu(lab, outer)
    lab.pair()
    assert device_mtu(lab, 1) == 1500
    send_bytes(lab, 4 << 20)
    assert "2 received" in lab.at(1, "ping", "-c2", "-M", "do", "-s", "1472", "10.2.0.1")


def test_mptcp_goes_on_while_the_mtu_shrinks(lab: Lab) -> None:
    lab.direct()
    _, two = lab.pair()
    transfer = Transfer(lab, pause=0.002)
    until(lambda: received(two) > 1e6, "the transfer runs")
    set_mtu(lab, 1280)
    came = received(two)
    until(lambda: received(two) > came + 2e6, "it goes on", 60)
    transfer.end()
