"""The TCP lane of the `quic` transport: real hosts behind two gateways, over four paths.

       number 3                number 1                       number 2               number 4
   +-------------+       +------------------+           +------------------+       +-------------+
   | lan 10.1.0.2|-------| lan 10.1.0.1  gw |== paths ==| gw  lan 10.2.0.1 |-------| lan 10.2.0.2|
   +-------------+       +------------------+           +------------------+       +-------------+
"""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gateway_lab import Gateway, Lab, pki, run, until

pytestmark = [pytest.mark.root, pytest.mark.measures]

PATHS = 4
PORT = 7000
CLIENT, SERVER = 3, 4
ADDRESSES = {CLIENT: "10.1.0.2", SERVER: "10.2.0.2"}


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with Lab(tmp_path) as lab:
        yield lab


def hosts(lab: Lab) -> None:
    """Put a host behind each gateway."""
    for number, gateway in ((CLIENT, 1), (SERVER, 2)):
        name = lab.namespace(number)
        lab.at(gateway, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        lab.cable(
            (gateway, "lan", f"10.{gateway}.0.1/24"), (number, "lan", f"10.{gateway}.0.2/24")
        )
        run("ip", "-n", name, "route", "add", "default", "via", f"10.{gateway}.0.1")


def gateways(lab: Lab, lanes: tuple[bool, bool] = (True, True)) -> tuple[Gateway, Gateway]:
    """Both gateways, started, with all paths up."""
    hosts(lab)
    files = pki(lab.folder, ["b1", "b2"])
    made = lab.gateway(1, 2), lab.gateway(2, 1)
    for gateway, lane in zip(made, lanes, strict=True):
        name = gateway.config["branch"]
        gateway.config["tun"]["address"] = None
        gateway.config["transport"] = {"kind": "quic", "tls": files[name]}
        if lane:
            gateway.config["transport"]["lane"] = {"II": "tcp"}
        gateway.start()
    wait_for_paths(*made, lane=all(lanes))
    return made


def wait_for_paths(one: Gateway, two: Gateway, *, lane: bool = True) -> None:
    until(lambda: min(one.subflows(), two.subflows()) >= PATHS, "all paths are up")
    if lane:
        until(lambda: "daddr" in rules(one) and "daddr" in rules(two), "both take the lane")


def rules(gateway: Gateway) -> str:
    """The rules that lead connections to a gateway."""
    listing = ("nft", "list", "table", "inet", "hawser_lane")
    return run("ip", "netns", "exec", gateway.namespace, *listing, check=False)


def lane(gateway: Gateway) -> dict[str, Any]:
    found: dict[str, Any] = gateway.group()["lane"]
    return found


def flows(gateway: Gateway) -> int:
    found = gateway.get("/v1/status")["peers"][0]["groups"][0]["lane_flows"]
    return int(found)


def start(lab: Lab, number: int, code: str, *arguments: str) -> subprocess.Popen[str]:
    """Run Python in a namespace; what it prints can be read."""
    program = "import socket, sys, time, hashlib, json\n" + textwrap.dedent(code)
    command = (sys.executable, "-u", "-c", program, *arguments)
    return lab.start(number, *command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def said(process: subprocess.Popen[str], seconds: float = 20) -> str:
    """All that a program printed, when it has ended."""
    return process.communicate(timeout=seconds)[0].strip()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().strip()


LISTEN = f"""
server = socket.create_server(("", {PORT}))
print("listens")
stream, client = server.accept()
"""

CONNECT = f"""
stream = socket.create_connection(("10.2.0.2", {PORT}), 10)
"""


def listening(lab: Lab, code: str, *arguments: str) -> subprocess.Popen[str]:
    """A server that takes one connection, and then does what `code` says."""
    server = start(lab, SERVER, LISTEN + textwrap.dedent(code), *arguments)
    assert line(server) == "listens"
    return server


def connecting(lab: Lab, code: str, *arguments: str) -> subprocess.Popen[str]:
    return start(lab, CLIENT, CONNECT + textwrap.dedent(code), *arguments)


SEND = """
data = bytes(range(251)) * 4000
digest = hashlib.sha256()
for n in range(int(sys.argv[1])):
    stream.sendall(data)
    digest.update(data)
stream.shutdown(socket.SHUT_WR)
"""

RECEIVE = """
seen = hashlib.sha256()
while part := stream.recv(1 << 16):
    seen.update(part)
"""


def test_both_ends_see_each_other_and_half_close(lab: Lab) -> None:
    """The server answers only after the client has ended, and more than it was sent."""
    one, two = gateways(lab.direct_paths())
    answer = SEND + 'print(json.dumps([client[0], stream.getsockname(), seen.hexdigest()]))'
    server = listening(lab, RECEIVE + answer, "6")
    client = connecting(lab, SEND + RECEIVE + "print(stream.getsockname()[1], seen.hexdigest())", "3")
    block = bytes(range(251)) * 4000
    port, back = said(client).split()
    address, own, there = json.loads(said(server))
    assert (address, own) == ("10.1.0.2", ["10.2.0.2", PORT])
    assert int(port) > 0
    assert there == hashlib.sha256(block * 3).hexdigest()
    assert back == hashlib.sha256(block * 6).hexdigest()
    until(lambda: flows(one) == flows(two) == 0, "the connection has ended")
    for gateway, sent, received in ((one, 3, 6), (two, 6, 3)):
        counters = lane(gateway)
        assert (counters["opened"], counters["ended"], counters["reset"]) == (1, 1, 0)
        assert counters["sent_bytes"] == sent * len(block)
        assert counters["received_bytes"] == received * len(block)
