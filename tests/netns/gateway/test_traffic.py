"""What gateways carry with the `mptcp` and `ipip` transports, over one link and over four paths.

   b1 10.1.0.1 -- wa ----------------- wa -- 10.2.0.1 b2        one unlimited link (`Lab.direct`)

   b1 10.1.0.1 -- wa -- 1a  router  2a -- wa -- 10.2.0.1 b2     four paths with a rate each
                  wb -- 1b          2b -- wb                    (`Lab.paths`)

Drawn with addresses in lab/gateway/pair.py.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.gateway.pair import Gateway, Lab
from lab.namespace import run
from lab.traffic.datagrams import send_datagrams
from lab.traffic.transfer import Transfer, send_bytes
from lab.waiting import PATIENCE, until

pytestmark = pytest.mark.root

PLAIN: dict[str, dict[str, Any]] = {
    "mptcp": {"kind": "mptcp", "tls": None, "insecure": True},
    "ipip": {"kind": "ipip", "insecure": True},
}


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with Lab(tmp_path) as lab:
        yield lab


def written(gateway: Gateway) -> int:
    packets: int = gateway.get("/v1/counters")["tun"]["written"]["packets"]
    return packets


@pytest.mark.parametrize("kind", PLAIN)
def test_tcp_and_echoes_pass(lab: Lab, kind: str) -> None:
    one, two = lab.direct().pair(transport=PLAIN[kind])
    assert len(lab.ping(20)) == 20
    send_bytes(lab, 16 << 20)
    until(lambda: one.group()["sent"] == two.group()["received"], "what was sent has arrived")
    for gateway in (one, two):
        drops = gateway.group()["drops"]
        drops.pop("queue_full")
        assert not any(drops.values())


@pytest.mark.parametrize("kind", PLAIN)
def test_the_device_has_the_configured_mtu_unless_the_path_takes_less(lab: Lab, kind: str) -> None:
    lab.direct().pair(transport=PLAIN[kind])
    link = json.loads(lab.at(1, "ip", "-j", "link", "show", "hawser0"))[0]
    assert link["mtu"] == {"mptcp": 1500, "ipip": 1480}[kind]
    assert link["txqlen"] > 500
    # the largest echo that fits into one packet, and one of many fragments
    for size in (link["mtu"] - 28, 60_000):
        assert "1 received" in lab.at(1, "ping", "-c1", "-W60", "-s", str(size), "10.2.0.1")


def test_bulk_travels_in_large_records(lab: Lab) -> None:
    one, _ = lab.direct().pair()
    lab.transfer("16M")
    sent = one.group()["sent"]
    assert sent["packets"] > 8 * sent["records"]
    assert one.get("/v1/status")["offload"] in ("tcp", "tcp+udp")


def test_ipv6_inside(lab: Lab) -> None:
    lab.direct()
    one, two = lab.gateway(1, 2), lab.gateway(2, 1)
    for gateway, own, other in ((one, 1, 2), (two, 2, 1)):
        gateway.config["peers"][0]["prefixes"].append(f"fd00:{other}::/64")
        gateway.config["tun"]["address"] = f"fd00:{own}::1/64"
        del gateway.config["source"]
        gateway.start()
    until(lambda: one.up() and two.up(), "up")
    send_bytes(lab, 16 << 20, to="fd00:2::1")
    sent = one.group()["sent"]
    assert sent["packets"] > 8 * sent["records"], "large records, as with IPv4"


def test_all_four_paths_carry(lab: Lab) -> None:
    one, _ = lab.paths([5, 5, 5, 5]).pair(subflows=4)
    assert one.subflows() == 4

    def carried() -> list[int]:
        classes = "".join(
            lab.at(0, "tc", "-s", "class", "show", "dev", port) for port in ("i2a", "i2b")
        )
        return [int(sent) for sent in re.findall(r"class htb .*\n Sent (\d+) bytes", classes)]

    transfer = Transfer(lab)
    until(lambda: min(carried()) > 500_000, "each path has carried half a megabyte")
    assert len(carried()) == 4
    transfer.end()


def test_inner_flows_keep_their_order(lab: Lab) -> None:
    """Datagrams of several flows over four unequal paths: what arrives is in the order of each.

    As many are under way as fill the paths and leave some queued; CoDel may drop a few of these.
    """
    gateways = lab.paths([4, 8, 12, 16]).pair(subflows=4)
    limits = {"window": 100, "size": 1000, "rate": 6000}
    delivery = send_datagrams(lab, 6000, flows=4, whole=False, fifo=True, **limits).delivery()
    assert (delivery.sent, delivery.reordered) == (6000, 0)
    assert delivery.lost < 1000
    drops = [sum(gateway.group()["drops"].values()) for gateway in gateways]
    assert delivery.lost == sum(drops), "the gateways count every loss"


def test_a_flow_stays_on_its_group(lab: Lab) -> None:
    lab.direct()
    groups = [{"id": n, "paths": [{"local": "198.18.0.1", "remote": "198.18.0.2"}]} for n in (3, 9)]
    back = [{"id": n, "paths": [{"local": "198.18.0.2", "remote": "198.18.0.1"}]} for n in (3, 9)]
    one, two = lab.gateway(1, 2), lab.gateway(2, 1)
    one.config["peers"][0]["groups"], two.config["peers"][0]["groups"] = groups, back
    one.start()
    two.start()
    until(lambda: one.subflows() == 2, "both groups are up")
    lab.transfer("1M", "-u", "-b", "8M")
    sent = [g["sent"]["packets"] for g in one.get("/v1/counters")["peers"][0]["groups"]]
    assert min(sent) < 50 < 300 < max(sent), "one flow of datagrams, beside iperf3's control flow"
    lab.transfer("600K", "-u", "-b", "200K", "-P", "24")
    sent = [g["sent"]["packets"] for g in one.get("/v1/counters")["peers"][0]["groups"]]
    assert min(sent) > 50, "many flows use both groups"


def test_unknown_destinations_are_dropped_and_counted(lab: Lab) -> None:
    one, _ = lab.direct().pair()
    run("ip", "-n", one.namespace, "route", "add", "10.77.0.0/24", "dev", "hawser0")

    def unknown() -> int:
        drops: dict[str, int] = one.get("/v1/counters")["tun"]["drops"]
        return drops["unknown_destination"]

    before = unknown()
    said = lab.at(1, "ping", "-c5", "-i0.02", "-W1", "10.77.0.1", check=False)
    assert "100% packet loss" in said
    # The kernel may send something of its own there, such as neighbour discovery.
    until(lambda: unknown() - before >= 5, "all are counted")


@pytest.mark.parametrize("kind", PLAIN)
def test_sources_that_are_not_behind_the_peer_are_dropped(lab: Lab, kind: str) -> None:
    one, two = lab.direct().pair(transport=PLAIN[kind])
    before = written(two)
    run("ip", "-n", one.namespace, "addr", "add", "10.66.0.1/32", "dev", "lo")
    said = lab.at(1, "ping", "-c3", "-i0.2", "-W1", "-I", "10.66.0.1", "10.2.0.1", check=False)
    assert "100% packet loss" in said
    until(lambda: two.group()["drops"]["foreign_source"] >= 3, "all are counted")
    assert two.group()["drops"]["foreign_source"] == 3
    assert written(two) == before


def test_ipip_is_what_others_take_it_for(lab: Lab) -> None:
    """RFC 2003 on the wire, as tshark reads it."""
    if not shutil.which("tshark"):
        pytest.skip("tshark is not installed (Debian package tshark)")
    lab.direct().pair(transport=PLAIN["ipip"])
    command = ["tshark", "-l", "-i", "wa", "-a", "duration:120", "-c", "2", "-f", "ip proto 4",
               "-T", "fields", "-e", "ip.src", "-e", "ip.dst", "-e", "ip.proto", "-e", "icmp.type",
               "-e", "ip.checksum.status", "-o", "ip.check_checksum:TRUE"]  # fmt: skip
    capture = lab.start(1, *command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert capture.stderr
    while "Capture started" not in capture.stderr.readline():
        assert capture.poll() is None, "tshark ended"
    lab.ping(5, 0.2)
    rows = [line.split("\t") for line in capture.communicate(timeout=PATIENCE)[0].splitlines()]
    assert rows == [
        ["198.18.0.1,10.1.0.1", "198.18.0.2,10.2.0.1", "4,1", "8", "1,1"],
        ["198.18.0.2,10.2.0.1", "198.18.0.1,10.1.0.1", "4,1", "0", "1,1"],
    ]


_FORGE = """
import socket, struct, sys
inner = bytes.fromhex(sys.argv[1])
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, 4)
s.bind(("198.18.0.9", 0))
for _ in range(5): s.sendto(inner, ("198.18.0.2", 0))
"""


def test_ipip_takes_packets_from_the_peers_address_only(lab: Lab) -> None:
    one, two = lab.direct().pair(transport=PLAIN["ipip"])
    run("ip", "-n", one.namespace, "addr", "add", "198.18.0.9/24", "dev", "wa")
    inner = "4500001c00000000400100000a0100010a0200010800f7ff00000000"
    before = two.group()["received"]["packets"]
    lab.at(1, sys.executable, "-c", _FORGE, inner)
    lab.ping(3)
    assert two.group()["received"]["packets"] == before + 3


@pytest.mark.parametrize("victim", [1, 2])
def test_a_transfer_survives_a_killed_gateway(lab: Lab, victim: int) -> None:
    """One gateway is killed in the middle and started again: the checksum is right."""
    gateways = lab.paths([100, 100, 100, 100]).pair(subflows=4)
    transfer = Transfer(lab)
    until(lambda: gateways[0].group()["sent"]["bytes"] > 10e6, "10 MB have been sent")
    killed = gateways[victim - 1]
    killed.stop(9)
    killed.start()
    before = gateways[0].group()["sent"]["bytes"]
    until(lambda: gateways[0].group()["sent"]["bytes"] > before + 10e6, "10 MB more")
    transfer.end()
    assert gateways[2 - victim].get("/v1/status")["peers"][0]["groups"][0]["reconnects"] == 1
