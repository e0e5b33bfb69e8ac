"""Local breakout at accesses whose addresses come late, change and go, by IPv4 and IPv6.

   host 9                b1                      router 0
  +------------+        +------------------+    +---------------------------+
  | 10.1.9.2   |--------| lan 10.1.9.1  wa |----| ia   203.0.113.9          |
  | fd0a::2    |        |     fd0a::1   wb |----| ib   2001:db8:9::9        |
  +------------+        +------------------+    +---------------------------+

Accesses as in lab/gateway/addresses.py. The router has no route to the LAN, so that what leaves
untranslated is not answered.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.gateway.addresses import B2, accesses, both_up, give, mobile_pair, take, waiting
from lab.gateway.pair import Gateway, Lab
from lab.traffic.echoes import echoes
from lab.waiting import until

pytestmark = pytest.mark.root

HOST = 9
OUTSIDE, OUTSIDE6 = "203.0.113.9", "2001:db8:9::9"
BOTH = [{"interface": "wa", "remote": B2}, {"interface": "wb", "remote": B2}]


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with Lab(tmp_path) as lab:
        accesses(lab, v6=True)
        lab.namespace(HOST)
        lab.cable((HOST, "lan", "10.1.9.2/24"), (1, "lan", "10.1.9.1/24"))
        lab.at(HOST, "ip", "route", "add", "default", "via", "10.1.9.1")
        for number, host in ((1, 1), (HOST, 2)):
            lab.at(number, "ip", "addr", "add", f"fd0a::{host}/64", "dev", "lan", "nodad")
        lab.at(HOST, "ip", "-6", "route", "add", "default", "via", "fd0a::1")
        lab.at(1, "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
        for address in (f"{OUTSIDE}/32", f"{OUTSIDE6}/128"):
            lab.at(0, "ip", "addr", "add", address, "dev", "lo")
        yield lab


def branches(lab: Lab) -> tuple[Gateway, Gateway]:
    """Both gateways, started; branch 1 has a classifier."""
    classifier: dict[str, Any] = {"lan": "lan", "internet": ["wa", "wb"]}
    one, two = mobile_pair(lab, "quic", BOTH)
    assert one.ask("PUT", "/v1/config", one.config | {"classifier": classifier})[0] == 200
    return one, two


def answered(lab: Lab, to: str = OUTSIDE) -> bool:
    """Whether an echo that the host sends is answered."""
    option = "-6" if ":" in to else "-4"
    return "1 received" in lab.at(HOST, "ping", option, "-c1", "-W1", to, check=False)


def table(lab: Lab, version: str = "-4") -> str:
    return lab.at(1, "ip", version, "route", "show", "table", "18519", check=False)


def test_breakout_follows_addresses(lab: Lab) -> None:
    one, two = branches(lab)
    assert table(lab) == ""
    assert not answered(lab)
    give(lab, "wa")
    until(lambda: answered(lab), "it leaves by the access that has an address")
    give(lab, "wb")
    until(lambda: table(lab).count("nexthop") == 2, "both are used")
    both_up(one, two, 2)
    take(lab, "wa")
    until(lambda: "198.18.2.1" in table(lab) and "198.18.1.1" not in table(lab), "one is left")
    assert len(echoes(f"{lab.prefix}-{HOST}", OUTSIDE, 10)) == 10
    lab.at(1, "ip", "link", "set", "wb", "down")
    until(lambda: table(lab) == "", "none is left")
    give(lab, "wa", host=7)
    until(lambda: answered(lab), "by another address")
    until(lambda: waiting(one) == {1: "wb is down"}, "so do the tunnels")
    one.stop()
    assert table(lab) == ""
    assert "0x4857" not in lab.at(1, "ip", "rule") + lab.at(1, "ip", "-6", "rule")


def test_breakout_by_ipv6(lab: Lab) -> None:
    """With the access's address in the place of the host's (NAT66)."""
    branches(lab)
    give(lab, "wa")
    until(lambda: answered(lab), "IPv4 leaves")
    assert not answered(lab, OUTSIDE6)
    for net, wan in ((1, "wa"), (2, "wb")):
        lab.at(1, "ip", "addr", "add", f"fd00:{net}::2/64", "dev", wan, "nodad")
        route = ("default", "via", f"fd00:{net}::1", "dev", wan, "metric", str(net))
        lab.at(1, "ip", "-6", "route", "add", *route)
        until(lambda router=route[2]: router in table(lab, "-6"), "it is used")  # type: ignore[misc]
        until(lambda: answered(lab, OUTSIDE6), "IPv6 leaves")
    lab.at(1, "ip", "-6", "route", "del", "default", "dev", "wa")
    until(lambda: "fd00:1::1" not in table(lab, "-6"), "its router is gone")
    assert answered(lab, OUTSIDE6)
    lab.at(1, "ip", "-6", "route", "del", "default", "dev", "wb")
    until(lambda: table(lab, "-6") == "", "none is left")
    assert not answered(lab, OUTSIDE6)
