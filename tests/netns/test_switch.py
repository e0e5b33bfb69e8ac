"""The `bpf` switch on real traffic: five gateways, and paths through other branches."""

from __future__ import annotations

import copy
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gateway_lab import Gateway, Lab, run
from switch_lab import (
    WORKED_EXAMPLE,
    address,
    counters,
    endpoints,
    gateways,
    next_hop,
    seen,
    sniff,
    switched,
)
from waiting import until

pytestmark = pytest.mark.root

VIA_3 = {1: ("1a", "2a", "1a>3a>3b>2a")}
"""One path, through branch 3."""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with Lab(tmp_path) as lab:
        yield lab


def start(made: dict[int, Gateway], subflows: int) -> None:
    for number in sorted(made, reverse=True):  # the kernel tries a subflow once: transit is there
        made[number].start()
    until(lambda: made[1].subflows() == subflows, f"{subflows} subflows")


@pytest.fixture
def example(lab: Lab) -> dict[int, Gateway]:
    """The worked example of document 004, section III.D, running."""
    switched(lab)
    endpoints(lab, 1, 2)
    made = gateways(lab, 4, WORKED_EXAMPLE)
    start(made, 4)
    return made


@pytest.fixture
def transit(lab: Lab) -> dict[int, Gateway]:
    """One path through branch 3, running."""
    switched(lab, (1, 2, 3))
    made = gateways(lab, 4, VIA_3)
    start(made, 1)
    return made


def no_drops(gateway: Gateway) -> bool:
    return not any(counters(gateway)[1].values())


@pytest.mark.measures
def test_the_worked_example_carries_tcp_and_udp(lab: Lab, example: dict[int, Gateway]) -> None:
    assert lab.iperf("-P", "4", seconds=2)["end"]["sum_received"]["bits_per_second"] > 100e6
    assert lab.iperf("-R", seconds=2)["end"]["sum_received"]["bits_per_second"] > 100e6
    udp = lab.iperf("-u", "-b", "20M", seconds=1)["end"]["sum"]
    assert udp["lost_packets"] < 5
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
    lab.iperf("-P", "4", "-b", "2M", seconds=1)
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
    assert hops[one] - hops[three] == 1, "transit takes one from the time to live"


_ECHO = """
import socket, sys
s = socket.socket(type=socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, 33, 1 << 22)  # SO_RCVBUFFORCE
s.bind((sys.argv[1], int(sys.argv[2])))
print("listening", flush=True)
while True:
    data, peer = s.recvfrom(9000)
    s.sendto(data, peer)
"""

_STREAM = """
import json, select, socket, sys, time
here, there, port, seconds, rate = sys.argv[1], sys.argv[2], *map(float, sys.argv[3:])
s = socket.socket(type=socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, 33, 1 << 22)  # SO_RCVBUFFORCE
s.bind((here, 0))
s.connect((there, int(port)))
s.setblocking(False)
sent, got, start = 0, set(), time.monotonic()
while (now := time.monotonic()) < start + seconds + 0.5:
    if now < start + seconds and sent < (now - start) * rate:
        s.send(sent.to_bytes(4, "big") + bytes(400))
        sent += 1
    elif select.select([s], [], [], 0.0005)[0]:
        got.add(int.from_bytes(s.recv(9000)[:4], "big"))
print(json.dumps({"sent": sent, "lost": sent - len(got)}))
"""


def stream(lab: Lab, seconds: float, rate: float = 2000) -> subprocess.Popen[str]:
    """UDP on the path of member 1 of group 4 from branch 1 to 2, and echoes back."""
    echo = lab.start(
        *(2, sys.executable, "-c", _ECHO, address("2a"), str(0x2004)), stdout=subprocess.PIPE
    )
    assert echo.stdout
    assert echo.stdout.readline() == "listening\n"
    arguments = (address("1a"), address("2a"), str(0x2004), str(seconds), str(rate))
    return lab.start(1, sys.executable, "-c", _STREAM, *arguments, stdout=subprocess.PIPE)


def result(process: subprocess.Popen[str]) -> dict[str, int]:
    found: dict[str, int] = json.loads(process.communicate(timeout=60)[0])
    return found


def test_udp_takes_the_same_paths(lab: Lab, transit: dict[int, Gateway]) -> None:
    before = counters(transit[3])[0]["b1>b2 g4 m1 forward at b3"]
    found = result(stream(lab, 1))
    assert found["lost"] == 0
    after = counters(transit[3])[0]["b1>b2 g4 m1 forward at b3"]
    assert after - before >= found["sent"] > 500


def renamed(config: dict[str, Any], turn: int) -> dict[str, Any]:
    new = copy.deepcopy(config)
    for entry in new["switch"]["entries"]:
        entry["name"] += f" turn {turn}"
    return new


def test_entries_are_replaced_under_traffic_without_loss(
    lab: Lab, transit: dict[int, Gateway]
) -> None:
    running = stream(lab, 4)
    turns = 0
    while running.poll() is None and turns < 60:
        for gateway in transit.values():
            new = renamed(gateway.config, turns % 2)
            assert gateway.ask("PUT", "/v1/config", new)[0] == 200
        turns += 1
        time.sleep(0.02)
    found = result(running)
    assert (found["lost"], turns > 10) == (0, True), found
    assert all(no_drops(gateway) for gateway in transit.values())


def filters(gateway: Gateway) -> str:
    """The filters on both ports."""
    shown = [
        run("tc", "-n", gateway.namespace, "filter", "show", "dev", wan, way)
        for wan in ("wa", "wb")
        for way in ("ingress", "egress")
    ]
    return "".join(line for line in "".join(shown).splitlines(True) if "handle" in line)


def test_a_killed_gateway_goes_on_forwarding_and_the_next_takes_over(
    lab: Lab, transit: dict[int, Gateway]
) -> None:
    running = stream(lab, 4)
    time.sleep(1)
    transit[3].stop(9)
    stale = filters(transit[3])
    assert stale.count("handle 0x1 switch_") == 4
    time.sleep(0.5)
    transit[3].start()
    assert filters(transit[3]).count("handle 0x1 switch_") == 4, "in the same place"
    assert filters(transit[3]) != stale
    assert result(running)["lost"] == 0
    assert counters(transit[3])[0]["b1>b2 g4 m1 forward at b3"] > 100
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
    """Forged labels get no answer; a gateway that forwards for its LAN is no relay for others."""
    gateway, target = transit[3], address("3a")
    lab.at(3, "sysctl", "-qw", "net.ipv4.ip_forward=1")

    def forge(kind: str, port: int, source: str = next_hop("3a"), fragment: str = "0") -> None:
        lab.at(0, sys.executable, "-c", _FORGE, kind, source, target, str(port), fragment)

    def grown(cause: str, before: dict[str, int]) -> int:
        return counters(gateway)[1][cause] - before[cause]

    answers = sniff(lab, 0, "i3a", f"src host {target} and (tcp or udp or icmp)")
    before = counters(gateway)[1]
    forge("tcp", 0x2114)  # the label of a path, from the wrong source
    forge("udp", 0x2114)
    forge("tcp", 0x2124)  # the label of a path that does not pass here
    assert grown("no_entry", before) == 30
    forge("udp", 0x2114, fragment="0x2000")  # more fragments to come
    assert grown("fragment", before) == 10
    # routed to the gateway, not addressed to it: from the internet to a third
    lab.at(0, "ip", "route", "add", "203.0.113.9", "via", address("3a"))
    lab.at(0, "ping", "-c5", "-i0.02", "-W1", "203.0.113.9", check=False)
    assert grown("no_entry", before) == 35
    assert [row for row in seen(answers) if row[0] == target and "40000" in row] == []
    # what is for the gateway itself passes
    assert " 0% packet loss" in lab.at(0, "ping", "-c3", "-i0.02", target)
    through = ("ping", "-q", "-c3", "-i0.1", "-W1", "10.2.0.1")
    until(lambda: " 0% packet loss" in lab.at(1, *through, check=False), "the path carries")


def goodput(lab: Lab) -> float:
    done = lab.iperf(seconds=2)["end"]["sum_received"]["bits_per_second"]
    return float(done) / 1e6


def test_a_smaller_mtu_in_the_internet_is_learnt_through_transit(
    lab: Lab, transit: dict[int, Gateway]
) -> None:
    """The router's ICMP goes to branch 3, whose packet it was, and from there to branch 1."""
    run("ip", "-n", f"{lab.prefix}-0", "link", "set", "i2a", "mtu", "1280")
    assert goodput(lab) > 50
    assert no_drops(transit[3])


@pytest.mark.parametrize("number", [3, 1])
def test_a_smaller_mtu_of_a_port_is_told(
    lab: Lab, transit: dict[int, Gateway], number: int
) -> None:
    """Of the port that transit leaves by, and of the one that the agent's packets leave by."""
    gateway = transit[number]
    wan = {3: "wb", 1: "wa"}[number]
    run("ip", "-n", gateway.namespace, "link", "set", wan, "mtu", "1280")
    assert goodput(lab) > 50
    if number == 3:
        assert counters(gateway)[1]["too_big"] > 0


def test_the_agents_port_may_be_another_than_the_paths(lab: Lab) -> None:
    """The agent's packets have port a's MTU; the path leaves by port b, whose is smaller."""
    switched(lab, (1, 2, 3))
    made = gateways(lab, 4, {1: ("1a", "2a", "1b>3a>3b>2b")})
    run("ip", "-n", made[1].namespace, "link", "set", "wb", "mtu", "1280")
    start(made, 1)
    assert goodput(lab) > 50
    assert counters(made[1])[1]["too_big"] > 0
