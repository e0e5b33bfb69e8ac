"""The `bpf` switch on real traffic: five gateways, and paths through other branches.

   gw1 198.18.11.2, 198.18.12.2 ==a,b== the internet ==a,b== 198.18.21.2, 198.18.22.2 gw2
                                          ||a,b
                                     gw3, gw4, gw5        subflows of the worked example:
                                                          1a>3a>3a>2a  1b>4a>4b>2a
                                                          1a>5a>5a>2b  1b>2b

Drawn in lab/gateway/switch.py. Most tests use one path through branch 3, 1a>3a>3b>2a.
"""

from __future__ import annotations

import copy
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.gateway.pair import Gateway, Lab
from lab.gateway.switch import (
    Family,
    add_ipv6,
    address,
    counters,
    gateways,
    next_hop,
    seen,
    sniff,
    start,
    switched,
    transit_example,
    worked_example,
)
from lab.namespace import run
from lab.traffic.datagrams import Datagrams, send_datagrams
from lab.traffic.echoes import echoes
from lab.traffic.transfer import Transfer, send_bytes
from lab.waiting import until

pytestmark = pytest.mark.root


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with Lab(tmp_path) as lab:
        yield lab


@pytest.fixture
def example(lab: Lab) -> dict[int, Gateway]:
    return worked_example(lab)


@pytest.fixture
def transit(lab: Lab) -> dict[int, Gateway]:
    return transit_example(lab)


@pytest.fixture
def transit6(lab: Lab) -> dict[int, Gateway]:
    """The same over IPv6."""
    return transit_example(lab, 6)


def no_drops(gateway: Gateway) -> bool:
    return not any(counters(gateway)[1].values())


def test_the_worked_example_carries_tcp_and_udp(lab: Lab, example: dict[int, Gateway]) -> None:
    transfers = [Transfer(lab, 6 << 20, port=7000 + n) for n in range(4)]
    transfers.append(Transfer(lab, 12 << 20, to="10.1.0.1", back=True))
    for transfer in transfers:
        transfer.end()
    delivery = send_datagrams(lab, 2000, size=1400).delivery()
    assert (delivery.sent, delivery.lost) == (2000, 0)
    for number, gateway in example.items():
        packets, drops = counters(gateway)
        assert not any(drops.values()), f"b{number}: {drops}"
        idle = [name for name, count in packets.items() if not count]
        assert not idle, f"b{number}: {idle}"
    text = example[3].ask("GET", "/metrics")[1]
    assert 'hawser_gateway_switch_packets_total{entry="b1>b2 g4 m1 forward at b3"}' in text
    assert 'hawser_gateway_switch_dropped_packets_total{cause="no_entry"} 0' in text


def test_labels_and_checksums_on_the_wire(lab: Lab, example: dict[int, Gateway]) -> None:
    """0x2114 through branch 3 and 0x2144 directly, decoded by tshark with all checksums good."""
    if not shutil.which("tshark"):
        pytest.skip("tshark is not installed (Debian package tshark)")
    for number in (1, 2):  # else the last sender's checksums are never computed on a veth
        for wan in ("wa", "wb"):
            lab.at(number, "ethtool", "-K", wan, "tx", "off")
    through = sniff(lab, 3, "wa", "tcp")
    direct = sniff(lab, 0, "i2b", "tcp")
    lab.transfer("2M", "-P", "4")
    rows = seen(through)
    one, two, three = address("1a"), address("2a"), address("3a")
    label = str(0x2114)
    ways = {(row[0], row[1], row[2 if row[3] != label else 3] == label) for row in rows}
    assert ways == {
        (one, three, True),
        (three, two, True),
        (two, three, True),
        (three, one, True),
    }
    for row in rows + seen(direct):
        assert row[6:8] == ["1", "1"], f"a checksum is wrong: {row}"
    hops = {row[0]: int(row[9]) for row in rows if row[3] == label}
    assert hops[one] - hops[three] == 1, "transit decrements the TTL"


def test_ipv6_has_labels_and_good_checksums_on_the_wire(
    lab: Lab, transit6: dict[int, Gateway]
) -> None:
    if not shutil.which("tshark"):
        pytest.skip("tshark is not installed (Debian package tshark)")
    for number in (1, 2):  # else the last sender's checksums are never computed on a veth
        lab.at(number, "ethtool", "-K", "wa", "tx", "off")
    captures = [sniff(lab, 3, wan, "ip6 and tcp") for wan in ("wa", "wb")]
    lab.transfer("2M")
    rows = [row for capture in captures for row in seen(capture, family=6)]
    one, two, three, four = (address(port, 6) for port in ("1a", "2a", "3a", "3b"))
    label = str(0x2114)
    ways = {(row[0], row[1], row[2 if row[3] != label else 3] == label) for row in rows}
    assert ways == {
        (one, three, True),
        (four, two, True),
        (two, four, True),
        (three, one, True),
    }
    assert {row[7] for row in rows} == {"1"}, "TCP checksums are good"
    hops = {row[0]: int(row[9]) for row in rows if row[3] == label}
    assert hops[one] - hops[four] == 1, "transit decrements the hop limit"
    assert all(no_drops(gateway) for gateway in transit6.values())


def test_ipv6_that_matches_nothing_goes_nowhere(lab: Lab, transit6: dict[int, Gateway]) -> None:
    """A gateway that forwards for its LAN is no open relay, and answers at its own addresses."""
    gateway, target = transit6[3], address("3a", 6)
    lab.at(3, "sysctl", "-qw", "net.ipv6.conf.all.forwarding=1")
    run("ip", "-6", "-n", f"{lab.prefix}-0", "route", "add", "2001:db8:ff::9", "via", target)
    before = counters(gateway)[1]["no_entry"]
    lab.at(0, "ping", "-c5", "-i0.02", "-W1", "2001:db8:ff::9", check=False)
    until(lambda: counters(gateway)[1]["no_entry"] == before + 5, "five echo requests are dropped")
    text = lab.at(3, "ip", "-6", "-o", "addr", "show", "dev", "wa", "scope", "link")
    link_local = text.split()[3].partition("/")[0]
    for own in (target, f"{link_local}%i3a"):
        lab.at(0, "ip", "neigh", "flush", "dev", "i3a")  # resolved anew
        assert " 0% packet loss" in lab.at(0, "ping", "-c3", "-i0.02", "-W1", own)


def stream(lab: Lab, count: int | None = None) -> Datagrams:
    """UDP on the path of member 1 of group 4 from branch 1 to 2, and echoes back."""
    return send_datagrams(lab, count, address("1a"), address("2a"), 0x2004)


FORWARD = "b1>b2 g4 m1 forward at b3"


def test_udp_takes_the_same_paths(lab: Lab, transit: dict[int, Gateway]) -> None:
    before = counters(transit[3])[0][FORWARD]
    delivery = stream(lab, 2000).delivery()
    assert (delivery.sent, delivery.lost) == (2000, 0)
    assert counters(transit[3])[0][FORWARD] - before >= 2000


def renamed(config: dict[str, Any], turn: int) -> dict[str, Any]:
    new = copy.deepcopy(config)
    for entry in new["switch"]["entries"]:
        entry["name"] += f" turn {turn}"
    return new


def test_entries_are_replaced_under_traffic_without_loss(
    lab: Lab, transit: dict[int, Gateway]
) -> None:
    running = stream(lab)
    for turn in range(30):
        for gateway in transit.values():
            new = renamed(gateway.config, turn % 2)
            assert gateway.ask("PUT", "/v1/config", new)[0] == 200
        name = f"{FORWARD} turn {turn % 2}"
        until(lambda name=name: counters(transit[3])[0][name] > 0, "the new entries are used")
    delivery = running.stop()
    assert delivery.lost == 0, delivery
    assert all(no_drops(gateway) for gateway in transit.values())


def filters(gateway: Gateway) -> str:
    """The filters on both ports."""
    shown = [
        run("tc", "-n", gateway.namespace, "filter", "show", "dev", wan, way)
        for wan in ("wa", "wb")
        for way in ("ingress", "egress")
    ]
    return "".join(line for line in "".join(shown).splitlines(True) if "handle" in line)


def forwarded(lab: Lab) -> int:
    """Packets that have come to the router from port b of branch 3."""
    return int(lab.at(0, "cat", "/sys/class/net/i3b/statistics/rx_packets"))


def test_a_killed_gateway_goes_on_forwarding_and_the_next_takes_over(
    lab: Lab, transit: dict[int, Gateway]
) -> None:
    running = stream(lab)
    until(lambda: counters(transit[3])[0][FORWARD] > 100, "it carries")
    transit[3].stop(9)
    stale = filters(transit[3])
    assert stale.count("handle 0x1 switch_") == 4
    before = forwarded(lab)
    until(lambda: forwarded(lab) > before + 200, "packets pass while no gateway runs")
    transit[3].start()
    assert filters(transit[3]).count("handle 0x1 switch_") == 4, "in the same place"
    assert filters(transit[3]) != stale
    until(lambda: counters(transit[3])[0][FORWARD] > 100, "the next one counts")
    assert running.stop().lost == 0
    transit[3].stop()
    assert filters(transit[3]) == ""


def test_ports_come_and_go_with_the_configuration(lab: Lab, transit: dict[int, Gateway]) -> None:
    gateway = transit[3]
    new = copy.deepcopy(gateway.config)
    new["switch"] = None
    assert gateway.ask("PUT", "/v1/config", new)[0] == 200
    assert filters(gateway) == ""
    assert gateway.get("/v1/counters")["switch"] is None
    assert gateway.ask("PUT", "/v1/config", gateway.config)[0] == 200
    assert filters(gateway).count("handle 0x1 switch_") == 4
    before = gateway.get("/v1/config")
    new = copy.deepcopy(gateway.config)
    new["switch"]["ports"][1]["interface"] = "absent0"
    status, text = gateway.ask("PUT", "/v1/config", new)
    assert (status, "absent0" in text) == (409, True)
    assert gateway.get("/v1/config") == before, "nothing half done"
    # without a switch branch 3 reset the subflow: it is made again
    ping = ("ping", "-q", "-c3", "-i0.02", "-W1", "10.2.0.1")
    until(lambda: " 0% packet loss" in lab.at(1, *ping, check=False), "pings pass")


def test_a_second_switch_in_the_namespace_is_refused(lab: Lab, transit: dict[int, Gateway]) -> None:
    second = lab.gateway(3, 1, switch=transit[3].config["switch"])
    second.config |= {"branch": "b9", "control": str(lab.folder / "second.sock"), "peers": []}
    second.config["tun"] = {"name": "other0", "mtu": 1500, "address": None}
    with pytest.raises(RuntimeError, match="another gateway has a switch"):
        second.start()
    assert filters(transit[3]).count("handle 0x1 switch_") == 4


_FORGE = """
import socket, struct, sys
kind, source, target, port, fragment = sys.argv[1:]
s, d = socket.inet_aton(source), socket.inet_aton(target)
if kind == "tcp":
    body = struct.pack("!HHIIHHHH", 40000, int(port), 1, 0, 0x5002, 1000, 0, 0)
    protocol = 6
else:
    body = struct.pack("!HHHH", 40000, int(port), 12, 0) + b"spam"
    protocol = 17
values = (0x45, 0, 20 + len(body), 7, int(fragment, 0), 9, protocol, 0, s, d)
head = struct.pack("!BBHHHBBH4s4s", *values)
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
for _ in range(10): raw.sendto(head + body, (target, 0))
"""


def test_what_matches_nothing_goes_nowhere(lab: Lab, transit: dict[int, Gateway]) -> None:
    """Forged labels get no answer; a gateway that forwards for its LAN is no open relay."""
    gateway, target = transit[3], address("3a")
    lab.at(3, "sysctl", "-qw", "net.ipv4.ip_forward=1")

    def forge(kind: str, port: int, source: str = next_hop("3a"), fragment: str = "0") -> None:
        lab.at(0, sys.executable, "-c", _FORGE, kind, source, target, str(port), fragment)

    def grows(cause: str, amount: int) -> None:
        """Wait until this number of further drops is counted, and check that there are no more."""

        def grown() -> int:
            return counters(gateway)[1][cause] - before[cause]

        until(lambda: grown() >= amount, f"{amount} more dropped: {cause}")
        assert grown() == amount

    answers = sniff(lab, 0, "i3a", f"src host {target} and (tcp or udp or icmp)")
    before = counters(gateway)[1]
    forge("tcp", 0x2114)  # the label of a path, from the wrong source
    forge("udp", 0x2114)
    forge("tcp", 0x2124)  # the label of a path that does not pass here
    grows("no_entry", 30)
    forge("udp", 0x2114, fragment="0x2000")  # more fragments to come
    grows("fragment", 10)
    # routed to the gateway, not addressed to it: from the internet to a third
    lab.at(0, "ip", "route", "add", "203.0.113.9", "via", address("3a"))
    lab.at(0, "ping", "-c5", "-i0.02", "-W1", "203.0.113.9", check=False)
    grows("no_entry", 35)
    assert [row for row in seen(answers) if row[0] == target and "40000" in row] == []
    # packets to the gateway itself pass
    assert len(echoes(f"{lab.prefix}-0", target, 3)) == 3
    through = ("ping", "-q", "-c3", "-i0.1", "-W1", "10.2.0.1")
    until(lambda: " 0% packet loss" in lab.at(1, *through, check=False), "the path carries")


@pytest.mark.parametrize("family", [4, 6])
def test_a_smaller_mtu_in_the_internet_is_learnt_through_transit(lab: Lab, family: Family) -> None:
    """The router's ICMP goes to branch 3, whose packet it was, and from there to branch 1."""
    made = transit_example(lab, family)
    run("ip", "-n", f"{lab.prefix}-0", "link", "set", "i2a", "mtu", "1280")
    send_bytes(lab, 4 << 20)
    assert no_drops(made[3])


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("number", [3, 1])
def test_a_smaller_mtu_of_a_port_is_told(lab: Lab, number: int, family: Family) -> None:
    """Of the port that transit leaves by, and of the one that the agent's packets leave by."""
    gateway = transit_example(lab, family)[number]
    wan = {3: "wb", 1: "wa"}[number]
    run("ip", "-n", gateway.namespace, "link", "set", wan, "mtu", "1280")
    send_bytes(lab, 4 << 20)
    if number == 3:
        assert counters(gateway)[1]["too_big"] > 0


@pytest.mark.parametrize("family", [4, 6])
def test_the_agents_port_may_be_another_than_the_paths(lab: Lab, family: Family) -> None:
    """The agent's packets have port a's MTU; the path leaves by port b, whose is smaller."""
    switched(lab, (1, 2, 3))
    if family == 6:
        add_ipv6(lab)
    made = gateways(lab, 4, {1: ("1a", "2a", "1b>3a>3b>2b")}, family)
    run("ip", "-n", made[1].namespace, "link", "set", "wb", "mtu", "1280")
    start(made, 1)
    send_bytes(lab, 4 << 20)
    assert counters(made[1])[1]["too_big"] > 0
