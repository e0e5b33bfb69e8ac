"""Types of traffic, classes and placement of path groups, and local breakout, on real traffic.

   host              branch 1                      router               branch 2
  +-----------+     +------------------+          +---------------+    +---------+
  | 10.1.9.2  |-----| lan 10.1.9.1     |          | 203.0.113.9   |    |         |
  +-----------+     | hawser0 10.1.0.1 |          |   "outside"   |    | hawser0 |
                    | a internet  wa   |----------| i1a      i2a  |----| wa      |   group 0: 1a>2a
                    | b leased    wb   |----------| i1b      i2b  |----| wb      |   group 2: 1b>2b
                    +------------------+          | i3a      i3b  |    +---------+      (class I)
                                                  +--|--------|---+
                                                    wa branch 3 wb      group 1: 1a>3a>3b>2a

The namespaces are those of lab/gateway/switch.py, the groups of lab/gateway/switch_groups.py.
"""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.gateway.pair import Gateway, Lab
from lab.gateway.switch import address, entries, seen, sniff, switch, switched
from lab.gateway.switch_groups import GROUPS, cut_group_1, grouped, mend_group_1, pings
from lab.namespace import run
from lab.traffic.echoes import echoes
from lab.waiting import PATIENCE, until

pytestmark = pytest.mark.root

HOST, OUTSIDE = 9, "203.0.113.9"
VOICE = {"name": "voice", "dscp": 46, "type": "I"}
WEB = {"name": "web", "protocol": "udp", "destination_ports": [8000, 8099], "type": "III"}


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with Lab(tmp_path) as lab:
        yield lab


@pytest.fixture
def office(lab: Lab) -> dict[int, Gateway]:
    """With a LAN, a classifier, and WAN ports that take only what was asked for."""
    switched(lab, (1, 2, 3))
    lab.namespace(HOST)
    lab.cable((HOST, "lan", "10.1.9.2/24"), (1, "lan", "10.1.9.1/24"))
    run("ip", "-n", f"{lab.prefix}-{HOST}", "route", "add", "default", "via", "10.1.9.1")
    run("ip", "-n", f"{lab.prefix}-0", "addr", "add", f"{OUTSIDE}/32", "dev", "lo")
    lab.at(1, "sysctl", "-qw", "net.ipv4.ip_forward=1")
    classifier = {"lan": "lan", "rules": [VOICE, WEB], "default": "II"}
    made = grouped(lab, classifier=classifier, wan={"interfaces": ["wa", "wb"]})
    # the LAN of branch 1 has two prefixes: the other end must know both
    new = copy.deepcopy(made[2].config)
    new["peers"][0]["prefixes"].append("10.1.9.0/24")
    assert made[2].ask("PUT", "/v1/config", new)[0] == 200
    return made


def sent(gateway: Gateway) -> dict[int, int]:
    """Packets sent on each group."""
    groups = gateway.get("/v1/counters")["peers"][0]["groups"]
    return {g["id"]: g["sent"]["packets"] for g in groups}


def grown(gateway: Gateway, before: dict[int, int]) -> dict[int, int]:
    return {g: count - before[g] for g, count in sent(gateway).items()}


def answered(lab: Lab, to: str, count: int = 20, dscp: int = 0) -> bool:
    """Whether all echoes that the host sends are answered."""
    return len(echoes(f"{lab.prefix}-{HOST}", to, count, tos=dscp << 2)) == count


def test_types_have_their_groups(lab: Lab, office: dict[int, Gateway]) -> None:
    before = sent(office[1])
    assert answered(lab, "10.2.0.1", dscp=46)
    voice = grown(office[1], before)
    assert voice[2] >= 20
    assert voice[0] + voice[1] < 20
    before = sent(office[1])
    assert answered(lab, "10.2.0.1")
    other = grown(office[1], before)
    assert other[0] + other[1] >= 20
    assert other[2] < 20


def test_urgent_traffic_uses_what_is_left_of_its_class(
    lab: Lab, office: dict[int, Gateway]
) -> None:
    """Class I takes any group when its own is gone."""
    for gateway, peer in ((office[1], 0), (office[2], 0)):
        new = copy.deepcopy(gateway.get("/v1/config"))
        del new["peers"][peer]["groups"][2]
        assert gateway.ask("PUT", "/v1/config", new)[0] == 200
    assert answered(lab, "10.2.0.1", dscp=46)


def test_the_rest_leaves_through_nat_at_an_internet_port(
    lab: Lab, office: dict[int, Gateway]
) -> None:
    capture = sniff(lab, 0, "any", f"dst host {OUTSIDE}")
    assert answered(lab, OUTSIDE, 5)
    server = ("iperf3", "-s", "-1", "-B", OUTSIDE, "-p", "8080")  # 0x1f90 looks like a label
    running = lab.start(0, *server, stdout=subprocess.DEVNULL)
    until(lambda: ":8080" in lab.at(0, "ss", "-Hltn"), "iperf3 listens")
    lab.at(HOST, "iperf3", "-c", OUTSIDE, "-p", "8080", "-n", "1M", "-B", "10.1.9.2")
    running.wait(PATIENCE)
    sources = {row[0] for row in seen(capture)}
    assert sources == {address("1a")}, "never the leased line, never a private address"


_SEND = """
import socket, sys
s = socket.socket(type=socket.SOCK_DGRAM)
for _ in range(20): s.sendto(b"x", (sys.argv[1], int(sys.argv[2])))
"""


def test_a_rule_may_send_traffic_for_a_branch_out_directly(
    lab: Lab, office: dict[int, Gateway]
) -> None:
    capture = sniff(lab, 0, "i1a", "udp and dst host 10.2.0.77")
    before = office[1].get("/v1/counters")["tun"]["read"]["packets"]
    lab.at(HOST, sys.executable, "-c", _SEND, "10.2.0.77", "8080")
    rows = seen(capture, 20)
    assert len(rows) == 20
    assert {row[0] for row in rows} == {address("1a")}
    assert all(1024 <= int(row[4]) < 4096 for row in rows), "no source port is a label"
    assert office[1].get("/v1/counters")["tun"]["read"]["packets"] - before < 20


def left(gateway: Gateway) -> str:
    """Rules and routes of local breakout that exist."""
    rules = run("ip", "-n", gateway.namespace, "rule", "show")
    tables = run("ip", "netns", "exec", gateway.namespace, "nft", "list", "tables")
    return "".join(
        line for line in (rules + tables).splitlines() if "0x4857" in line or "inet hawser" in line
    )


def test_breakout_comes_and_goes_with_the_configuration(
    lab: Lab, office: dict[int, Gateway]
) -> None:
    gateway = office[1]
    assert "0x4857" in left(gateway)
    new = copy.deepcopy(gateway.config)
    new["classifier"] = new["wan"] = None
    assert gateway.ask("PUT", "/v1/config", new)[0] == 200
    assert left(gateway) == ""
    assert gateway.ask("PUT", "/v1/config", gateway.config)[0] == 200
    gateway.stop(9)
    assert "0x4857" in left(gateway)
    gateway.start()
    assert left(gateway).count("hawser") == 2, "in the place of what the dead one left"
    assert answered(lab, OUTSIDE, 5)
    gateway.stop()
    assert left(gateway) == ""


FLOWS = "32"
"""Of 32 flows, a fair hash gives each of two groups at least six but once in 10 000."""


def up(gateway: Gateway) -> list[bool]:
    """Which groups to the first peer are up."""
    return [group["up"] for group in gateway.get("/v1/status")["peers"][0]["groups"]]


@pytest.mark.parametrize("placement", ["round_robin", "flow_hash", "least_loaded", "throughput"])
def test_flows_spread_and_leave_a_group_that_fails(lab: Lab, placement: str) -> None:
    """A group whose path is cut is left; its flows go on over the other."""
    switched(lab, (1, 2, 3))
    made = grouped(lab, placement=placement)
    lab.transfer("400K", "-u", "-b", "100K", "-P", FLOWS)
    status = made[1].get("/v1/status")["peers"][0]["groups"]
    flows = {g["id"]: g["flows"] for g in status}
    assert flows[2] == 0
    assert min(flows[0], flows[1]) >= 3, flows
    if placement == "round_robin":
        assert abs(flows[0] - flows[1]) <= 1
    cut_group_1(lab)
    until(lambda: pings(lab), "pings pass again")
    until(lambda: not all(up(made[1])), "the dead group is given up")
    before = sent(made[1])
    lab.transfer("100K", "-u", "-b", "100K", "-P", "8")
    assert grown(made[1], before)[1] < 20
    mend_group_1(lab)
    until(lambda: all(up(made[1])), "the group is back")
    until(lambda: made[1].subflows() == len(GROUPS), "and its path")
    before = sent(made[1])
    lab.transfer("400K", "-u", "-b", "100K", "-P", FLOWS)
    assert grown(made[1], before)[1] > 50, "and used again"


def test_sixteen_groups(lab: Lab) -> None:
    """As many groups as fit a label, all set up beforehand."""
    switched(lab, (1, 2))
    made = {}
    found = {g: entries(g, {1: ("1a", "2a", "1a>2a")}) for g in range(16)}
    for number in (1, 2):
        gateway = lab.gateway(number, 3 - number)
        all_entries = [entry for g in range(16) for entry in found[g][number]]
        gateway.config["switch"] = switch(number, all_entries)
        ends = ("1a", "2a") if number == 1 else ("2a", "1a")
        path = {"local": address(ends[0]), "remote": address(ends[1])}
        gateway.config["peers"][0]["groups"] = [{"id": g, "paths": [path]} for g in range(16)]
        gateway.config["placement"] = "round_robin"
        gateway.start()
        made[number] = gateway
    until(lambda: made[1].subflows() == 16, "sixteen connections")
    lab.transfer("500K", "-u", "-b", "100K", "-P", "32")
    assert all(count > 10 for count in sent(made[1]).values())
