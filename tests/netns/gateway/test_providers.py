"""DHCP, DNS and NAT as accesses have them, while a connection is carried.

   b1 -- wa -- router (DHCP, DNS, NAT) -- wa -- b2
         wb -- router                                 addresses in lab/gateway/addresses.py

PPPoE is not tested: kernels without it can only have an interface that comes and goes, as in
test_addresses.py.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.gateway.addresses import (
    B2,
    accesses,
    both_up,
    give,
    goes_on,
    group,
    mobile_pair,
    stayed_connected,
    waiting,
)
from lab.gateway.pair import Gateway, Lab
from lab.gateway.providers import Dhcp, Dns, masquerade, rebind
from lab.traffic.transfer import Transfer
from lab.waiting import until

pytestmark = pytest.mark.root

KINDS = pytest.mark.parametrize("kind", ["quic", "mptcp"])
TO_B2 = {"interface": "wa", "remote": B2}
BY_NAME = {"interface": "wa", "remote": "b2.test"}


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with Lab(tmp_path) as lab:
        yield lab


def move_b2(lab: Lab, host: int) -> None:
    """Give branch 2 another address."""
    lab.at(2, "ip", "-4", "addr", "flush", "dev", "wa")
    lab.at(2, "ip", "addr", "add", f"198.18.3.{host}/24", "dev", "wa")
    lab.at(2, "ip", "route", "add", "default", "via", "198.18.3.1")


def source(lab: Lab) -> str:
    """IPv4 addresses of `wa` of branch 1."""
    return lab.at(1, "ip", "-4", "-br", "addr", "show", "dev", "wa")


@KINDS
def test_a_dhcp_server_answers_late_and_then_with_another_address(lab: Lab, kind: str) -> None:
    accesses(lab, "wb")
    dhcp = Dhcp(lab)
    one, two = mobile_pair(lab, kind, [TO_B2, {"interface": "wb", "remote": B2}])
    both_up(one, two, 1)
    assert waiting(one) == {0: "no IPv4 address on wa"}
    transfer = Transfer(lab, pause=0.002)
    goes_on(two)
    dhcp.serve(50)
    both_up(one, two, 2)
    assert group(one)["reconnects"] == 0, one.group()["ends"]
    lab.at(1, "ip", "link", "set", "wb", "down")
    until(lambda: waiting(one) == {1: "wb is down"}, "it is missed")
    goes_on(two)
    assert group(one)["reconnects"] == 0, one.group()["ends"]
    began = time.monotonic()
    dhcp.serve(60)
    dhcp.renew()
    until(lambda: "198.18.1.60" in source(lab), "there is another lease")
    gone = time.monotonic() - began  # 3 s at least: the DHCP client waits after a refusal
    goes_on(two)
    transfer.end()
    assert stayed_connected(one, gone), (gone, one.group()["ends"])


@KINDS
def test_a_name_that_changes(lab: Lab, kind: str) -> None:
    with Dns(accesses(lab, "wa")) as dns:
        one, two = mobile_pair(lab, kind, [BY_NAME], [{"interface": "wa"}])
        until(lambda: waiting(one).get(0, "").startswith("b2.test does not resolve"), "it is said")
        dns.say("b2.test", B2)
        both_up(one, two, 1)
        until(lambda: waiting(one) == {}, "nothing is missing")
        transfer = Transfer(lab, pause=0.002)
        goes_on(two)
        move_b2(lab, 9)
        dns.say("b2.test", "198.18.3.9")
        goes_on(two)
        transfer.end()


def test_a_name_with_several_addresses(lab: Lab) -> None:
    """The first may be one where nobody is."""
    with Dns(accesses(lab, "wa")) as dns:
        dns.say("b2.test", f"198.18.3.77 b2.test\n{B2}")
        one, two = mobile_pair(lab, "quic", [BY_NAME])
        both_up(one, two, 1)
        assert group(one)["remote"] == B2


def carried_through(lab: Lab, one: Gateway, two: Gateway) -> None:
    """A transfer goes on while the NAT forgets all it knew, twice."""
    transfer = Transfer(lab, pause=0.002)
    for host in (5, 6):
        goes_on(two)
        rebind(lab, host)
        goes_on(two)
    transfer.end()
    assert len(lab.ping(3)) == 3
    until(lambda: one.up() and two.up(), "both are up")


@KINDS
def test_a_nat_that_changes_ports_and_forgets(lab: Lab, kind: str) -> None:
    masquerade(accesses(lab, "wa"))
    one, two = mobile_pair(lab, kind, [TO_B2])
    both_up(one, two, 1)
    carried_through(lab, one, two)
    if kind == "quic":
        assert group(one)["reconnects"] == group(two)["reconnects"] == 0, "it migrates"


@KINDS
def test_two_accesses_behind_one_nat(lab: Lab, kind: str) -> None:
    masquerade(accesses(lab, "wa", "wb"))
    one, two = mobile_pair(lab, kind, [TO_B2, {"interface": "wb", "remote": B2}])
    both_up(one, two, 2)
    transfer = Transfer(lab, pause=0.002)
    goes_on(two)
    lab.at(1, "ip", "link", "set", "wa", "down")
    goes_on(two)
    lab.at(1, "ip", "link", "set", "wa", "up")
    give(lab, "wa", host=3)
    both_up(one, two, 2)
    transfer.end()
