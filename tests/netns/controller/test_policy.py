"""A policy is in force where packets pass: lines, thresholds and rates of classes, and who talks to
whom.

See tests/lab/controller/network.py for the topology: `wa` is fibre, `wb` is lte.
"""

from __future__ import annotations

import json
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from lab import control
from lab.controller.network import Deployment
from lab.waiting import until

pytestmark = [pytest.mark.root, pytest.mark.slow]

LABELS = {
    f"gw{n}.{port}": {"label": label}
    for n in (1, 2)
    for port, label in (("wa", "fibre"), ("wb", "lte"))
}
ENDS = ("-I", "10.1.0.1", "10.2.0.1")
SENT = 400_000
"""Bytes of the pings of one round: far more than a port sends to learn what its paths carry."""


def test_a_class_keeps_to_its_ports_and_falls_back(tmp_path: Path) -> None:
    with Deployment(tmp_path, (1, 2)) as network:
        put_in_force(network, {"II": {"labels": ["fibre"]}}, switch="bpf")
        fibre, lte = sent(network)
        assert fibre > SENT
        assert lte < SENT / 2
        network.lab.at(1, "ip", "link", "set", "wa", "down")
        until(lambda: answered(network), "packets take the other port")
        _, lte = sent(network)
        assert lte > SENT


def test_a_class_that_must_not_use_other_ports_does_not(tmp_path: Path) -> None:
    only = {"labels": ["fibre"], "otherwise": "drop"}
    with Deployment(tmp_path, (1, 2)) as network:
        put_in_force(network, {"I": only, "II": only}, switch="none")
        fibre, lte = sent(network)
        assert fibre > SENT
        assert lte < SENT / 2
        network.lab.at(1, "ip", "link", "set", "wa", "down")
        until(lambda: not network.branches[1].reaches(), "the path is down")
        assert not answered(network)


def put_in_force(network: Deployment, policy: dict[str, Any], switch: str) -> None:
    """Join the branches, then put a policy in force."""
    network.start()
    change = {"ports": LABELS, "policy": policy, "overlay": {"switch": switch}}
    network.controller.patch(change)
    until(network.controller.settled, "the policy is kept everywhere")
    until(network.connected, "every branch reaches every other")
    until(lambda: answered(network), "packets pass")


def answered(network: Deployment) -> bool:
    return " 1 received" in network.lab.at(1, "ping", "-c", "1", "-W", "2", *ENDS, check=False)


def sent(network: Deployment) -> tuple[int, int]:
    """Bytes that the two ports of b1 send while it pings b2."""
    before = [_bytes(network, port) for port in ("wa", "wb")]
    network.lab.at(1, "ping", "-c", "100", "-i", "0.02", "-s", str(SENT // 100), *ENDS)
    after = [_bytes(network, port) for port in ("wa", "wb")]
    return after[0] - before[0], after[1] - before[1]


def _bytes(network: Deployment, port: str) -> int:
    return int(network.lab.at(1, "cat", f"/sys/class/net/{port}/statistics/tx_bytes"))


def test_what_happens_when_no_path_meets_the_thresholds_is_as_configured(tmp_path: Path) -> None:
    """No path has a delay below a microsecond."""
    impossible = {"delay": "1 us", "leave_after": "500 ms"}
    with Deployment(tmp_path, (1, 2)) as network:
        put_in_force(network, {"II": {"sla": impossible}}, switch="bpf")
        until(lambda: states(network) == {("II", "standby"), ("I", "up")}, "paths are left")
        assert answered(network)
        strict = {"policy": {"II": {"sla": impossible, "otherwise": "drop"}}}
        network.controller.patch(strict)
        until(lambda: not answered(network), "packets wait rather than use such a path")
        network.controller.patch({"policy": None})
        until(lambda: answered(network), "without thresholds they pass")


def states(network: Deployment) -> set[tuple[str, str]]:
    """Class and state of the paths of b1."""
    classes = {0: "II", 1: "I"}
    (peer,) = network.branches[1].status()["peers"]
    return {(classes[g["id"]], path["state"]) for g in peer["groups"] for path in g["paths"]}


def test_a_class_is_sent_no_faster_than_its_rate(tmp_path: Path) -> None:
    flood = ("ping", "-q", "-f", "-c", "600", "-s", "1000", "-w", "60", *ENDS)
    least = (600 * 8 * 1028 - 8 * BURST) / 400e3
    with Deployment(tmp_path, (1, 2)) as network:
        policy = {"II": {"max_rate": "400 kbit/s"}, "III": {"max_rate": "10 Mbit/s"}}
        put_in_force(network, policy, switch="bpf")
        table = network.lab.at(1, "nft", "list", "table", "inet", "hawser")
        assert "limit rate over 1250000 bytes/second" in table.replace("\n", " ")
        began = time.monotonic()
        assert received(network.lab.at(1, *flood)) >= 600
        assert time.monotonic() - began >= least
        network.controller.patch({"policy": {"II": None}})
        until(network.controller.settled)
        began = time.monotonic()
        assert received(network.lab.at(1, *flood)) >= 600
        assert time.monotonic() - began < least, "there is no limit any more"


def received(report: str) -> int:
    """Answers that a ping took, which may be more than it waits for: several come at once."""
    found = re.search(r"(\d+) received", report)
    assert found, report
    return int(found[1])


BURST = 50_000
"""Bytes that may leave at once, with what was saved up."""


def test_branches_that_are_kept_apart_do_not_reach_each_other_by_any_way(tmp_path: Path) -> None:
    proxied = {"overlay": {"tcp_proxy": {"II": "tcp"}}}
    with Deployment(tmp_path, (1, 2, 3)) as network:
        network.controller.begin()
        network.join_all()
        until(network.connected)
        network.controller.patch(proxied)
        until(network.controller.settled)
        until(network.connected)
        old = control.ask(network.branches[3].directory / "gateway.sock", "GET", "/v1/config")[1]
        watch_the_internet(network)
        network.controller.patch({"overlay": {"access": {"b3": ["b1"]}}})
        until(network.controller.settled)
        until(lambda: [n.reaches() for n in network.branches.values()] == APART)
        for one, other in ((2, 3), (3, 2)):
            assert "prohibited" in connected(network, one, other)
            assert " 0 received" in pinged(network, one, other)
        until(lambda: " 1 received" in pinged(network, 1, 3), "others are reached")
        # A branch that does not keep to it: without agent, and with its former configuration.
        network.branches[3].stop(signal.SIGKILL)
        socket = network.branches[3].directory / "gateway.sock"
        assert control.ask(socket, "PUT", "/v1/config", json.loads(old))[0] == 200
        for _ in range(3):
            assert " 0 received" in pinged(network, 3, 2)
            assert "reached" not in connected(network, 3, 2)
        assert network.branches[2].reaches() == {"b1"}
        assert leaked(network) == 0
        network.controller.patch({"overlay": {"access": None}})
        network.branches[3].work()
        until(network.connected, "all is as before")
        until(lambda: " 1 received" in pinged(network, 2, 3))


APART = [{"b2", "b3"}, {"b1"}, {"b1"}]
CONNECT = """
import socket, sys
stream = socket.socket()
stream.settimeout(2)
stream.bind((sys.argv[1], 0))
try:
    stream.connect((sys.argv[2], 7000))
    print("reached")
except ConnectionRefusedError:
    print("reached, and refused")
except PermissionError:
    print("prohibited")
except OSError as error:
    print(error)
"""


def pinged(network: Deployment, one: int, other: int) -> str:
    command = ("ping", "-c", "1", "-W", "1", "-I", f"10.{one}.0.1", f"10.{other}.0.1")
    return network.lab.at(one, *command, check=False)


def connected(network: Deployment, one: int, other: int) -> str:
    ends = f"10.{one}.0.1", f"10.{other}.0.1"
    return network.lab.at(one, sys.executable, "-c", CONNECT, *ends)


def watch_the_internet(network: Deployment) -> None:
    """Count packets outside to the branches' prefixes."""
    rule = "ip daddr 10.0.0.0/8 counter"
    rules = f"table ip seen {{ chain in {{ type filter hook prerouting priority raw; {rule}; }}; }}"
    network.lab.at(0, "nft", rules)


def leaked(network: Deployment) -> int:
    table = network.lab.at(0, "nft", "list", "table", "ip", "seen")
    return int(table.split("packets ")[1].split()[0])
