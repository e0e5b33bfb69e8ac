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
from gateway_lab import Gateway, Lab, pki, run
from waiting import until

pytestmark = [pytest.mark.root, pytest.mark.measures]

PATHS = 4
RATES = (10, 10, 10, 10)
PORT = 7000
CLIENT, SERVER = 3, 4
ADDRESSES = {CLIENT: "10.1.0.2", SERVER: "10.2.0.2"}
IPV6 = {CLIENT: "2001:db8:1::2", SERVER: "2001:db8:2::2"}


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with Lab(tmp_path) as lab:
        yield lab


def hosts(lab: Lab) -> None:
    """Put a host behind each gateway."""
    for number, gateway in ((CLIENT, 1), (SERVER, 2)):
        name = lab.namespace(number)
        lab.at(gateway, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        lab.cable((gateway, "lan", f"10.{gateway}.0.1/24"), (number, "lan", f"10.{gateway}.0.2/24"))
        run("ip", "-n", name, "route", "add", "default", "via", f"10.{gateway}.0.1")


def hosts_with_ipv6(lab: Lab) -> None:
    """Give the hosts and gateways IPv6 addresses as well."""
    for number, gateway in ((CLIENT, 1), (SERVER, 2)):
        net = f"2001:db8:{gateway}:"
        lab.at(gateway, "sysctl", "-qw", "net.ipv6.conf.all.forwarding=1")
        for at, host in ((gateway, 1), (number, 2)):
            lab.at(at, "ip", "address", "add", f"{net}:{host}/64", "dev", "lan", "nodad")
        lab.at(number, "ip", "-6", "route", "add", "default", "via", f"{net}:1")


def gateways(
    lab: Lab, lanes: tuple[bool, bool] = (True, True), *, ipv6: bool = False
) -> tuple[Gateway, Gateway]:
    """Both gateways, started, with all paths up."""
    lab.paths(RATES)
    hosts(lab)
    if ipv6:
        hosts_with_ipv6(lab)
    files = pki(lab.folder, ["b1", "b2"])
    made = lab.gateway(1, 2), lab.gateway(2, 1)
    for gateway, lane in zip(made, lanes, strict=True):
        name = gateway.config["branch"]
        gateway.config["tun"]["address"] = None
        gateway.config["transport"] = {"kind": "quic", "tls": files[name]}
        if lane:
            gateway.config["transport"]["lane"] = {"II": "tcp"}
        if ipv6:
            own, peer = gateway.config["id"], gateway.config["peers"][0]
            gateway.config["source6"] = f"2001:db8:{own}::1"
            peer["prefixes"].append(f"2001:db8:{peer['id']}::/64")
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


def start(
    lab: Lab, number: int, code: str, *arguments: str, port: int = PORT, stdin: int | None = None
) -> subprocess.Popen[str]:
    """Run Python in a namespace; what it prints can be read."""
    program = f"import socket, sys, time, hashlib, json\nport = {port}\n" + textwrap.dedent(code)
    command = (sys.executable, "-u", "-c", program, *arguments)
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "stdin": stdin}
    return lab.start(number, *command, **pipes)


def said(process: subprocess.Popen[str], seconds: float = 20) -> str:
    """All that a program printed, when it has ended."""
    return process.communicate(timeout=seconds)[0].strip()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().strip()


LISTEN = """
server = socket.create_server(("", port), family=socket.AF_INET)
print("listens")
stream, client = server.accept()
"""

CONNECT = """
stream = socket.create_connection(("10.2.0.2", port), 10)
stream.settimeout(None)
"""
CONNECT6 = CONNECT.replace("10.2.0.2", IPV6[SERVER])


def listening(
    lab: Lab,
    code: str,
    *arguments: str,
    family: str = "AF_INET",
    **options: Any,  # noqa: ANN401
) -> subprocess.Popen[str]:
    """A server that takes one connection, and then does what `code` says."""
    listen = LISTEN.replace("AF_INET", family)
    server = start(lab, SERVER, listen + textwrap.dedent(code), *arguments, **options)
    assert line(server) == "listens"
    return server


def connecting(lab: Lab, code: str, *arguments: str, **options: Any) -> subprocess.Popen[str]:  # noqa: ANN401
    """A client that connects, and then does what `code` says."""
    return start(lab, CLIENT, CONNECT + textwrap.dedent(code), *arguments, **options)


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


@pytest.mark.parametrize("ipv6", [False, True])
def test_both_ends_see_each_other_and_half_close(lab: Lab, *, ipv6: bool) -> None:
    """The server answers only after the client has ended, and more than it was sent."""
    one, two = gateways(lab, ipv6=ipv6)
    answer = SEND + "print(json.dumps([client[:2], stream.getsockname()[:2], seen.hexdigest()]))"
    server = listening(lab, RECEIVE + answer, "6", family="AF_INET6" if ipv6 else "AF_INET")
    told = "print(json.dumps([stream.getsockname()[:2], seen.hexdigest()]))"
    connect = CONNECT6 if ipv6 else CONNECT
    client = start(lab, CLIENT, connect + SEND + RECEIVE + told, "3")
    block = bytes(range(251)) * 4000
    name, back = json.loads(said(client))
    seen, own, there = json.loads(said(server))
    addresses = IPV6 if ipv6 else ADDRESSES
    assert (seen, own) == (name, [addresses[SERVER], PORT])
    assert name[0] == addresses[CLIENT]
    assert there == hashlib.sha256(block * 3).hexdigest()
    assert back == hashlib.sha256(block * 6).hexdigest()
    until(lambda: flows(one) == flows(two) == 0, "the connection has ended")
    for gateway, sent, received in ((one, 3, 6), (two, 6, 3)):
        counters = lane(gateway)
        assert (counters["opened"], counters["ended"], counters["reset"]) == (1, 1, 0)
        assert counters["sent_bytes"] == sent * len(block)
        assert counters["received_bytes"] == received * len(block)


WAIT_FOR_RESET = """
try:
    while stream.recv(1 << 16):
        pass
    print("ended")
except ConnectionResetError:
    print("reset")
"""

RESET = """
import struct
stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
stream.close()
"""


def test_resets_are_carried_at_once(lab: Lab) -> None:
    """In both directions; and one that a port refuses comes back as a reset."""
    one, two = gateways(lab)
    for here, there in ((listening, connecting), (connecting, listening)):
        resets, waits = "stream.sendall(b'x')\ntime.sleep(0.3)" + RESET, WAIT_FOR_RESET
        codes = {here: resets, there: waits}
        server = listening(lab, codes[listening])
        client = connecting(lab, codes[connecting])
        begin = time.monotonic()
        assert said(server if there is listening else client) == "reset"
        assert time.monotonic() - begin < 5
    refused = connecting(lab, WAIT_FOR_RESET)
    assert said(refused) == "reset"
    until(lambda: flows(one) == flows(two) == 0, "all have ended")
    assert lane(one)["reset"] == 3
    assert (lane(two)["reset"], lane(two)["ended"]) == (3, 0)


PUSH = """
stream.setblocking(False)
sent, quiet = 0, time.monotonic()
while time.monotonic() - quiet < 1.5:
    try:
        sent += stream.send(bytes(1 << 16))
        quiet = time.monotonic()
    except BlockingIOError:
        time.sleep(0.01)
print(sent)
stream.shutdown(socket.SHUT_WR)
sys.stdin.readline()
"""


def test_who_does_not_read_stops_the_sender(lab: Lab) -> None:
    """What the connection and the gateways hold is bounded, others go on, and nothing is lost."""
    one, two = gateways(lab)
    before = one.memory()[1], two.memory()[1]
    reads = """
        sys.stdin.readline()
        total = 0
        while part := stream.recv(1 << 16):
            total += len(part)
        print(total)
    """
    server = listening(lab, reads, stdin=subprocess.PIPE)
    client = connecting(lab, PUSH, stdin=subprocess.PIPE)
    sent = int(line(client))
    # the kernels' buffers at both hosts and gateways, and a window between these
    assert sent < 40 << 20
    # 12 MiB: a window of at most 8 MiB, and what is on its way
    grown = [gateway.memory()[1] - was for gateway, was in zip((one, two), before, strict=True)]
    assert max(grown) < 12 << 10
    other = hashlib.sha256(bytes(range(251)) * 4000).hexdigest()
    assert transfer(lab, port=PORT + 1) == other
    until(lambda: flows(one) == 1, "the other has ended")
    assert server.stdin
    server.stdin.write("\n")
    server.stdin.flush()
    assert int(said(server)) == sent


def transfer(lab: Lab, blocks: int = 1, port: int = PORT, between: Any = None) -> str:  # noqa: ANN401
    """Send blocks to the server, doing something meanwhile; the digest of what has come."""
    server = listening(lab, RECEIVE + "print(seen.hexdigest())", port=port)
    client = connecting(lab, SEND, str(blocks), port=port)
    if between:
        between()
    said(client)
    return said(server)


def test_a_path_that_is_cut_costs_time_alone(lab: Lab) -> None:
    """The transfer goes on over the other three; what the path had under way goes again."""
    one, _ = gateways(lab)

    def cut() -> None:
        until(lambda: lane(one)["sent_bytes"] > 2e6, "the transfer runs")
        lab.cut("1a", "2a")

    begin = time.monotonic()
    digest = transfer(lab, blocks=12, between=cut)
    taken = time.monotonic() - begin
    assert digest == hashlib.sha256(bytes(range(251)) * 4000 * 12).hexdigest()
    # 12 MB: 2.5 s over four paths, 3.4 s over three; 10 s if it waited for the path
    assert taken < 9
    assert lane(one)["resent"] > 0
    assert lane(one)["reset"] == 0


ECHO = """
while part := stream.recv(1 << 16):
    stream.sendall(part)
"""

CHATTER = """
try:
    while True:
        stream.sendall(b"x")
        if not stream.recv(1):
            print("ended")
            break
        print("answered")
        time.sleep(0.05)
except ConnectionResetError:
    print("reset")
"""


def chatting(lab: Lab) -> tuple[subprocess.Popen[str], subprocess.Popen[str]]:
    """A connection on which bytes go to and fro."""
    server = listening(lab, "try:\n" + textwrap.indent(textwrap.dedent(ECHO), "    ")
                       + "except ConnectionResetError:\n    print('reset')")  # fmt: skip
    client = connecting(lab, CHATTER)
    assert line(client) == "answered"
    return server, client


def left_behind(lab: Lab) -> str:
    """What of the lane is in the network of gateway 1."""
    rules = lab.at(1, "nft", "list", "ruleset") + lab.at(1, "ip", "rule")
    route = lab.at(1, "ip", "route", "show", "table", "18508", check=False)
    rules += lab.at(1, "ip", "-6", "rule")
    route += lab.at(1, "ip", "-6", "route", "show", "table", "18508", check=False)
    return "\n".join(each for each in (rules + route).splitlines() if "hawser_lane" in each
                     or "18508" in each or "local default" in each)  # fmt: skip


def test_a_gateway_that_dies_resets_and_leaves_nothing(lab: Lab) -> None:
    """Killed: its own ends are reset at once, the peer's when it begins anew, and all works again.

    Stopped: the same at once on both sides, and nothing of it is left.
    """
    one, two = gateways(lab, ipv6=True)
    server, client = chatting(lab)
    one.stop(signal.SIGKILL)
    assert said(client).splitlines()[-1] == "reset"
    assert left_behind(lab), "killed, it could take nothing away"
    one.start()
    assert said(server).splitlines()[-1] == "reset"
    wait_for_paths(one, two)
    assert lane(two)["reset"] == 1
    server, client = chatting(lab)
    one.stop()
    assert said(client).splitlines()[-1] == "reset"
    assert said(server).splitlines()[-1] == "reset"
    assert not left_behind(lab)


def test_a_peer_that_falls_silent_ends_connections(lab: Lab) -> None:
    """Nobody says that it is gone: 10 seconds of silence on all paths do."""
    _, two = gateways(lab)
    server, client = chatting(lab)
    two.stop(signal.SIGKILL)
    assert said(server).splitlines()[-1] == "reset"
    assert said(client).splitlines()[-1] == "reset"


def test_who_does_not_take_the_lane_gets_datagrams(lab: Lab) -> None:
    one, two = gateways(lab, lanes=(True, False))
    digest = hashlib.sha256(bytes(range(251)) * 4000).hexdigest()
    assert transfer(lab) == digest
    assert one.group()["sent"]["bytes"] > 1e6
    assert lane(one)["opened"] == lane(two)["opened"] == 0


def test_only_connections_of_hosts_take_the_lane(lab: Lab) -> None:
    """Those of and to the gateways themselves, and all that is not TCP, go as datagrams."""
    one, _ = gateways(lab, ipv6=True)
    for addresses in (ADDRESSES, IPV6):
        ping = ("ping", "-c1", "-W1", addresses[SERVER])
        until(lambda ping=ping: "1 received" in lab.at(CLIENT, *ping, check=False), "echoes pass")
    digest = hashlib.sha256(bytes(range(251)) * 4000).hexdigest()
    for family, own in (("AF_INET", "10.2.0.1"), ("AF_INET6", "2001:db8:2::1")):
        listen = LISTEN.replace("AF_INET", family)
        to_gateway = start(lab, 2, listen + RECEIVE + "print(seen.hexdigest())")
        assert line(to_gateway) == "listens"
        said(start(lab, CLIENT, CONNECT.replace("10.2.0.2", own) + SEND, "1"))
        assert said(to_gateway) == digest
    assert lane(one)["opened"] == 0


def test_metrics_tell_of_the_lane(lab: Lab) -> None:
    one, _ = gateways(lab)
    transfer(lab)
    until(lambda: flows(one) == 0, "the connection has ended")
    text = one.ask("GET", "/metrics")[1]
    labels = 'peer="b2",group="0"'
    assert f'hawser_gateway_lane_connections_total{{{labels},cause="ended"}} 1' in text
    assert f"hawser_gateway_lane_sent_bytes_total{{{labels}}} 1004000" in text
    assert f"hawser_gateway_group_lane_flows{{{labels}}} 0" in text
