"""Addresses that come late, change and go away, while a connection is carried.

b1 -- wa, wb -- router -- wa -- b2          drawn with addresses in lab/gateway/addresses.py
"""

from __future__ import annotations

import copy
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
    sent_by,
    stayed_connected,
    take,
    waiting,
)
from lab.gateway.mtu import device_mtu, set_mtu
from lab.gateway.pair import Lab
from lab.traffic.transfer import Transfer, send_bytes
from lab.waiting import until

pytestmark = pytest.mark.root

KINDS = pytest.mark.parametrize("kind", ["quic", "mptcp"])
BOTH = [{"interface": "wa", "remote": B2}, {"interface": "wb", "remote": B2}]


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with Lab(tmp_path) as lab:
        yield lab


@KINDS
def test_a_missing_address_costs_its_path_only(lab: Lab, kind: str) -> None:
    one, two = mobile_pair(accesses(lab, "wa"), kind, BOTH)
    both_up(one, two, 1)
    assert waiting(one) == {1: "no IPv4 address on wb"}
    transfer = Transfer(lab, pause=0.002)
    goes_on(two)
    give(lab, "wb")
    both_up(one, two, 2)
    until(lambda: waiting(one) == {}, "nothing is missing")
    taken = time.monotonic()
    take(lab, "wa")
    until(lambda: waiting(one) == {0: "no IPv4 address on wa"}, "it is missed")
    goes_on(two)
    give(lab, "wa", host=3)
    gone = time.monotonic() - taken
    both_up(one, two, 2)
    goes_on(two)
    transfer.end()
    assert stayed_connected(one, gone)


@KINDS
def test_the_only_path_moves_with_its_address(lab: Lab, kind: str) -> None:
    """As the same connection: by migration (RFC 9000 section 9), or with a new subflow."""
    one, two = mobile_pair(accesses(lab, "wa"), kind, BOTH[:1])
    both_up(one, two, 1)
    transfer = Transfer(lab, pause=0.002)
    for host in (7, 8):
        goes_on(two)
        take(lab, "wa")
        give(lab, "wa", host)
        goes_on(two)
    transfer.end()
    assert group(one)["reconnects"] == group(two)["reconnects"] == 0
    if kind == "quic":
        assert [path["local"] for path in group(one)["paths"]] == ["198.18.1.8"]


@KINDS
def test_the_end_that_listens_loses_its_address_for_a_moment(lab: Lab, kind: str) -> None:
    """As when a lease is renewed by taking the address away and giving it again."""
    one, two = mobile_pair(accesses(lab, "wa"), kind, BOTH[:1], [{"interface": "wa"}])
    both_up(one, two, 1)
    transfer = Transfer(lab, pause=0.002)
    goes_on(two)
    lab.at(2, "ip", "-4", "addr", "flush", "dev", "wa")
    until(lambda: waiting(two) == {0: "no IPv4 address on wa"}, "it is missed")
    lab.at(2, "ip", "addr", "add", f"{B2}/24", "dev", "wa")
    lab.at(2, "ip", "route", "add", "default", "via", "198.18.3.1")
    goes_on(two)
    lab.at(2, "ip", "link", "set", "wa", "down")
    until(lambda: waiting(two) == {0: "wa is down"}, "it is missed")
    lab.at(2, "ip", "link", "set", "wa", "up")
    lab.at(2, "ip", "route", "add", "default", "via", "198.18.3.1")
    goes_on(two)
    transfer.end()
    assert group(one)["reconnects"] == group(two)["reconnects"] == 0


@KINDS
def test_no_address_at_the_start_and_for_long(lab: Lab, kind: str) -> None:
    """Neither end has one; later, the idle timeout passes without one."""
    theirs = [{"interface": "wa"}]
    lab = accesses(lab)
    lab.at(2, "ip", "addr", "flush", "dev", "wa", "scope", "global")
    one, two = mobile_pair(lab, kind, BOTH[:1], theirs)
    assert waiting(one) == {0: "no IPv4 address on wa"} == waiting(two)
    lab.at(2, "ip", "addr", "add", f"{B2}/24", "dev", "wa")
    lab.at(2, "ip", "route", "add", "default", "via", "198.18.3.1")
    give(lab, "wa")
    both_up(one, two, 1)
    take(lab, "wa")
    until(lambda: not one.up() and not two.up(), "both have given up")
    give(lab, "wa", host=9)
    both_up(one, two, 1)
    assert len(lab.ping(5)) == 5


@KINDS
def test_each_access_sends_by_its_own_interface(lab: Lab, kind: str) -> None:
    """Without rules, whatever the main table prefers."""
    one, two = mobile_pair(accesses(lab, "wa", "wb"), kind, BOTH)
    both_up(one, two, 2)
    transfer = Transfer(lab, pause=0.002)
    goes_on(two)
    for left, cut in (("wa", "ib"), ("wb", "ia")):
        lab.at(0, "ip", "link", "set", cut, "down")
        sent = sent_by(lab, left)
        goes_on(two)
        assert sent_by(lab, left) > sent + 500_000
        lab.at(0, "ip", "link", "set", cut, "up")
        both_up(one, two, 2)
    transfer.end()
    rules = lab.at(1, "ip", "rule").splitlines()
    assert len(rules) == 3, "the kernel's own"


@pytest.mark.parametrize("kind", ["quic", "mptcp", "ipip"])
def test_addresses_of_the_configuration_may_come_late(lab: Lab, kind: str) -> None:
    """Where paths name addresses, not interfaces."""
    lab.direct()
    lab.at(1, "ip", "addr", "flush", "dev", "wa", "scope", "global")
    changes = {"transport": {"kind": kind, "tls": None, "insecure": True}} if kind == "ipip" else {}
    if kind == "ipip":
        one, two = lab.gateway(1, 2, **changes), lab.gateway(2, 1, **changes)
        one.start()
        two.start()
    else:
        path = [{"local": "198.18.0.1", "remote": "198.18.0.2"}]
        theirs = [{"local": "198.18.0.2", "remote": "198.18.0.1"}]
        one, two = mobile_pair(lab, kind, path, theirs)
    assert waiting(one) == {0: "no interface has the address 198.18.0.1"}
    assert not one.up()
    lab.at(1, "ip", "addr", "add", "198.18.0.1/24", "dev", "wa")
    until(lambda: one.up() and two.up(), "both are up")
    until(lambda: len(lab.ping(1)) == 1, "echoes pass")


@KINDS
def test_an_ipv6_address_is_used_once_it_is_not_tentative(lab: Lab, kind: str) -> None:
    remote = {"interface": "wa", "remote": "fd00:3::2"}
    one, two = mobile_pair(accesses(lab, v6=True), kind, [remote], [{"local": "fd00:3::2"}])
    assert waiting(one) == {0: "no IPv6 address on wa"}
    lab.at(1, "ip", "addr", "add", "fd00:1::2/64", "dev", "wa")
    lab.at(1, "ip", "-6", "route", "add", "default", "via", "fd00:1::1", "dev", "wa")
    both_up(one, two, 1)
    transfer = Transfer(lab, pause=0.002)
    goes_on(two)
    lab.at(1, "ip", "addr", "add", "fd00:1::3/64", "dev", "wa")
    lab.at(1, "ip", "addr", "del", "fd00:1::2/64", "dev", "wa")
    goes_on(two)
    transfer.end()
    assert group(one)["reconnects"] == 0


def test_ipip_over_ipv6(lab: Lab) -> None:
    """IPv4 in IPv6 (RFC 2473): the device leaves room for 40 bytes more, and all sizes pass."""
    lab.direct()
    for number in (1, 2):
        lab.at(number, "ip", "addr", "add", f"fd00::{number}/64", "dev", "wa")
    lab.wans = {1: ["fd00::1"], 2: ["fd00::2"]}
    one, two = lab.pair(transport={"kind": "ipip", "tls": None, "insecure": True})
    until(lambda: device_mtu(lab, 1) == device_mtu(lab, 2) == 1460, "the MTU is known")
    send_bytes(lab, 4 << 20)
    assert len(lab.ping(5)) == 5
    assert "2 received" in lab.at(1, "ping", "-c2", "-M", "do", "-s", "1432", "10.2.0.1")
    for gateway in (one, two):
        assert not any(gateway.group()["drops"].values())


@pytest.mark.parametrize(("outer", "header"), [("IPv4", 20), ("IPv6", 40)])
def test_ipip_with_ipv6_inside(lab: Lab, outer: str, header: int) -> None:
    """Both versions in one tunnel (RFC 4213, RFC 2473), and 1280 bytes over a path of as many."""
    lab.direct()
    if outer == "IPv6":
        for number in (1, 2):
            lab.at(number, "ip", "addr", "add", f"fd00::{number}/64", "dev", "wa", "nodad")
        lab.wans = {1: ["fd00::1"], 2: ["fd00::2"]}
    made = [lab.gateway(number, 3 - number) for number in (1, 2)]
    for number, gateway in enumerate(made, 1):
        gateway.config["transport"] = {"kind": "ipip", "insecure": True}
        gateway.config["source6"] = f"fd0{number}::1"
        gateway.config["peers"][0]["prefixes"].append(f"fd0{3 - number}::/64")
        lab.at(number, "ip", "addr", "add", f"fd0{number}::1/64", "dev", "lo", "nodad")
        gateway.start()
    until(lambda: device_mtu(lab, 1) == device_mtu(lab, 2) == 1500 - header, "the MTU is known")
    for to in ("10.2.0.1", "fd02::1"):
        send_bytes(lab, 4 << 20, to=to)
        assert "5 received" in lab.at(1, "ping", "-c5", "-i0.1", "-W60", to)
    set_mtu(lab, 1280)
    until(lambda: device_mtu(lab, 1) == device_mtu(lab, 2) == 1280, "the MTU follows")
    for to, size in (("10.2.0.1", "1252"), ("fd02::1", "1232")):
        assert "2 received" in lab.at(1, "ping", "-c2", "-M", "do", "-s", size, to)
        send_bytes(lab, 1 << 20, to=to)
    for gateway in made:
        assert not any(gateway.group()["drops"].values())


def test_ipip_keeps_every_tunnel_if_one_cannot_be_opened(lab: Lab) -> None:
    """A configuration that is refused has moved none of them."""
    lab.direct()
    lab.at(1, "ip", "addr", "add", "198.18.0.3/24", "dev", "wa")
    groups = [
        {"id": number, "paths": [{"local": f"198.18.0.{one}", "remote": f"198.18.0.{two}"}]}
        for number, one, two in ((0, 1, 2), (1, 3, 2))
    ]
    backwards = copy.deepcopy(groups)
    for path in (each["paths"][0] for each in backwards):
        path["local"], path["remote"] = path["remote"], path["local"]
    peers = [{"branch": "b2", "id": 2, "prefixes": ["10.2.0.0/24"], "groups": groups}]
    others = [{"branch": "b1", "id": 1, "prefixes": ["10.1.0.0/24"], "groups": backwards}]
    ipip = {"kind": "ipip", "tls": None, "insecure": True}
    one = lab.gateway(1, 2, transport=ipip, peers=peers)
    two = lab.gateway(2, 1, transport=ipip, peers=others)
    one.start()
    two.start()
    until(lambda: one.up() and two.up(), "both are up")
    lab.at(1, "ip", "addr", "add", "198.18.0.4/24", "dev", "wa")
    new = copy.deepcopy(one.config)
    wanted = new["peers"][0]["groups"]
    wanted[0]["paths"][0]["local"] = "198.18.0.4"
    wanted[1]["paths"][0]["remote"] = "198.18.0.255"  # the broadcast address
    assert one.ask("PUT", "/v1/config", new)[0] >= 400
    assert len(lab.ping(20)) == 20
    assert not any(two.group()["drops"].values())
    assert one.get("/v1/config")["peers"] == peers


@KINDS
def test_a_configuration_without_a_usable_path_is_refused(lab: Lab, kind: str) -> None:
    """While the one in force has one. A path of several may wait."""
    one, two = mobile_pair(accesses(lab, "wa"), kind, BOTH[:1])
    both_up(one, two, 1)

    def put(*paths: dict[str, str]) -> tuple[int, str]:
        new = copy.deepcopy(one.config)
        new["peers"][0]["groups"][0]["paths"] = list(paths)
        return one.ask("PUT", "/v1/config", new)

    status, text = put({"local": "198.18.1.77", "remote": B2})
    assert status == 409
    assert "none of its paths could be used: no interface has the address 198.18.1.77" in text
    assert one.up()
    assert len(lab.ping(2)) == 2
    assert waiting(one) == {}
    status, _ = put({"interface": "wa", "remote": B2}, {"interface": "wb", "remote": B2})
    assert status == 200
    assert waiting(one) == {1: "no IPv4 address on wb"}


def test_who_does_not_answer_is_named(lab: Lab) -> None:
    one, _ = mobile_pair(accesses(lab, "wa"), "quic", [{"interface": "wa", "remote": "198.18.3.7"}])
    until(lambda: waiting(one) == {0: "no answer from 198.18.3.7"}, "it is said")
    lab.at(1, "sysctl", "-qw", "net.ipv4.conf.wa.rp_filter=1")
    until(lambda: "net.ipv4.conf.wa.rp_filter is 1" in waiting(one)[0], "it is said too")


@KINDS
def test_a_path_follows_its_interface_when_that_is_made_anew(lab: Lab, kind: str) -> None:
    """As PPP and modems do: the name is the same, the index is not."""
    one, two = mobile_pair(accesses(lab, "wa", "wb"), kind, BOTH)
    both_up(one, two, 2)
    transfer = Transfer(lab, pause=0.002)
    lab.at(1, "ip", "link", "del", "wb")
    until(lambda: waiting(one) == {1: "there is no interface wb"}, "it is missed")
    goes_on(two)
    lab.cable((1, "wb", "198.18.2.5/24"), (0, "ib", "198.18.2.1/24"))
    lab.at(1, "ip", "route", "add", "default", "via", "198.18.2.1", "dev", "wb", "metric", "2")
    both_up(one, two, 2)
    until(lambda: waiting(one) == {}, "nothing is missing")
    goes_on(two)
    transfer.end()
